"""Mending the JSON that profilers really write: control characters, bare N/A, stray backslashes and quotes."""

from __future__ import annotations

import re

# Every control character to a space: outside of texts they are white space anyway, inside they are illegal.
_CONTROLS = bytes(32 if byte < 32 else byte for byte in range(256))
_BARE = re.compile(rb"(?<=[:\[,])(\s*)(?:N/A|-?[nN]a[nN]|-?[iI]nf(?:inity)?)(?=\s*[,}\]])")
_BACKSLASH = re.compile(rb'\\(?:(["\\/bfnrt]|u[0-9a-fA-F]{4})|)')
# A name's text up to the next key that profilers write behind it; what is between is the text, quotes included.
_NAME = re.compile(rb'("name"\s*:\s*")(.*?)("\s*(?:,\s*"(?:pid|tid|ph|cat|ts|dur|args|id|s|bp)"\s*:|\}))', re.DOTALL)
# Longer than any event that is worth mending; a hostile text of quotes or backslashes would cost much time and memory.
_LONG = 1 << 16
_QUOTE = re.compile(rb'(?<!\\)"')


def repaired(text: bytes) -> bytes:
    """The text with these faults mended; what is sound stays as it is, except that bad UTF-8 becomes U+FFFD."""
    try:
        text.decode()
    except UnicodeDecodeError:
        text = text.decode(errors="replace").encode()
    text = text.translate(_CONTROLS)
    text = _BARE.sub(rb"\1null", text)
    if len(text) > _LONG:
        return text
    text = _BACKSLASH.sub(lambda match: match[0] if match[1] else rb"\\", text)
    return _NAME.sub(lambda match: match[1] + _QUOTE.sub(rb"\"", match[2]) + match[3], text)
