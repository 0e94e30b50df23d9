"""Whole answers of every API, byte by byte, in the forms that their specifications show."""

from __future__ import annotations

from .answers import HEAD

COMPLETIONS = HEAD + (
    b'data: {"id":"cmpl-1","object":"text_completion","created":1,"model":"m",'
    b'"choices":[{"index":0,"text":" Hel","logprobs":null,"finish_reason":null}]}\n\n'
    b'data: {"id":"cmpl-1","object":"text_completion","created":1,"model":"m",'
    b'"choices":[{"index":0,"text":"lo \xe8\xaf\xad","logprobs":null,"finish_reason":"length"}]}\n\n'
    b'data: {"id":"cmpl-1","object":"text_completion","created":1,"model":"m","choices":[],'
    b'"usage":{"prompt_tokens":5,"completion_tokens":2,"total_tokens":7,"prompt_tokens_details":{"cached_tokens":4}}}'
    b"\n\ndata: [DONE]\n\n"
)

CHAT = HEAD + (
    b'data: {"id":"c","object":"chat.completion.chunk","model":"m",'
    b'"choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}],"usage":null}\n\n'
    b": keep-alive\n\n"
    b'data: {"id":"c","object":"chat.completion.chunk","model":"m",'
    b'"choices":[{"index":0,"delta":{"reasoning_content":"Hm."},"finish_reason":null}],"usage":null}\n\n'
    b'data: {"id":"c","object":"chat.completion.chunk","model":"m",'
    b'"choices":[{"index":0,"delta":{"content":"H\\u00e9"},"finish_reason":null}],"usage":null}\n\n'
    b'data: {"id":"c","object":"chat.completion.chunk","model":"m","choices":[{"index":0,"delta":{"tool_calls":'
    b'[{"index":0,"id":"t","type":"function","function":{"name":"f","arguments":""}}]},"finish_reason":null}]}\n\n'
    b'data: {"id":"c","object":"chat.completion.chunk","model":"m","choices":[{"index":0,"delta":{"tool_calls":'
    b'[{"index":0,"function":{"arguments":"{}"}}]},"finish_reason":null}]}\n\n'
    b'data: {"id":"c","object":"chat.completion.chunk","model":"m",'
    b'"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}],"usage":null}\n\n'
    b'data: {"id":"c","object":"chat.completion.chunk","model":"m","choices":[],"usage":{"prompt_tokens":9,'
    b'"completion_tokens":8,"total_tokens":17,"completion_tokens_details":{"reasoning_tokens":3},'
    b'"prompt_tokens_details":{"cached_tokens":0}}}\n\n'
    b"data: [DONE]\n\n"
)

RESPONSES = HEAD + (
    b'event: response.created\ndata: {"type":"response.created","sequence_number":0,"response":{"id":"resp_1",'
    b'"object":"response","status":"in_progress","output":[],"usage":null}}\n\n'
    b'event: response.in_progress\ndata: {"type":"response.in_progress","sequence_number":1,"response":{"id":"resp_1",'
    b'"object":"response","status":"in_progress","output":[],"usage":null}}\n\n'
    b'event: response.output_item.added\ndata: {"type":"response.output_item.added","sequence_number":2,'
    b'"output_index":0,"item":{"id":"rs_1","type":"reasoning","summary":[]}}\n\n'
    b'event: response.reasoning_text.delta\ndata: {"type":"response.reasoning_text.delta","sequence_number":3,'
    b'"item_id":"rs_1","output_index":0,"content_index":0,"delta":"Hm."}\n\n'
    b'event: response.reasoning_summary_text.delta\ndata: {"type":"response.reasoning_summary_text.delta",'
    b'"sequence_number":4,"item_id":"rs_1","output_index":0,"summary_index":0,"delta":" So."}\n\n'
    b'event: response.output_item.added\ndata: {"type":"response.output_item.added","sequence_number":5,'
    b'"output_index":1,"item":{"id":"msg_1","type":"message","status":"in_progress","role":"assistant","content":[]}}\n\n'
    b'event: response.content_part.added\ndata: {"type":"response.content_part.added","sequence_number":6,'
    b'"item_id":"msg_1","output_index":1,"content_index":0,'
    b'"part":{"type":"output_text","text":"","annotations":[]}}\n\n'
    b'event: response.output_text.delta\ndata: {"type":"response.output_text.delta","sequence_number":7,'
    b'"item_id":"msg_1","output_index":1,"content_index":0,"delta":"Gr\xc3\xbc","logprobs":[]}\n\n'
    b'event: response.output_text.delta\ndata: {"type":"response.output_text.delta","sequence_number":8,'
    b'"item_id":"msg_1","output_index":1,"content_index":0,"delta":"\xc3\x9fe","logprobs":[]}\n\n'
    b'event: response.output_text.done\ndata: {"type":"response.output_text.done","sequence_number":9,'
    b'"item_id":"msg_1","output_index":1,"content_index":0,"text":"Gr\xc3\xbc\xc3\x9fe"}\n\n'
    b'event: response.refusal.delta\ndata: {"type":"response.refusal.delta","sequence_number":10,'
    b'"item_id":"msg_1","output_index":1,"content_index":1,"delta":"no"}\n\n'
    b'event: response.output_item.added\ndata: {"type":"response.output_item.added","sequence_number":11,'
    b'"output_index":2,"item":{"id":"fc_1","type":"function_call","call_id":"c1","name":"f","arguments":""}}\n\n'
    b'event: response.function_call_arguments.delta\ndata: {"type":"response.function_call_arguments.delta",'
    b'"sequence_number":12,"item_id":"fc_1","output_index":2,"delta":"{}"}\n\n'
    b'event: response.completed\ndata: {"type":"response.completed","sequence_number":13,"response":{"id":"resp_1",'
    b'"object":"response","status":"completed","output":[{"id":"fc_1","type":"function_call","name":"f",'
    b'"arguments":"{}"}],"usage":{"input_tokens":11,"input_tokens_details":{"cached_tokens":6},"output_tokens":10,'
    b'"output_tokens_details":{"reasoning_tokens":3},"total_tokens":21}}}\n\n'
)

MESSAGES = HEAD + (
    b'event: message_start\ndata: {"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant",'
    b'"content":[],"model":"m","stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":12,'
    b'"cache_creation_input_tokens":3,"cache_read_input_tokens":20,"output_tokens":1}}}\n\n'
    b'event: content_block_start\ndata: {"type":"content_block_start","index":0,'
    b'"content_block":{"type":"thinking","thinking":"","signature":""}}\n\n'
    b'event: ping\ndata: {"type": "ping"}\n\n'
    b'event: content_block_delta\ndata: {"type":"content_block_delta","index":0,'
    b'"delta":{"type":"thinking_delta","thinking":"Hm."}}\n\n'
    b'event: content_block_delta\ndata: {"type":"content_block_delta","index":0,'
    b'"delta":{"type":"signature_delta","signature":"EqQBCgIYAhIM1gbcDa9GJwZA2b3h"}}\n\n'
    b'event: content_block_stop\ndata: {"type":"content_block_stop","index":0}\n\n'
    b'event: content_block_start\ndata: {"type":"content_block_start","index":1,'
    b'"content_block":{"type":"text","text":""}}\n\n'
    b'event: content_block_delta\ndata: {"type":"content_block_delta","index":1,'
    b'"delta":{"type":"text_delta","text":"\xe4\xbd\xa0"}}\n\n'
    b'event: content_block_delta\ndata: {"type":"content_block_delta","index":1,'
    b'"delta":{"type":"text_delta","text":"\xe5\xa5\xbd"}}\n\n'
    b'event: content_block_stop\ndata: {"type":"content_block_stop","index":1}\n\n'
    b'event: content_block_start\ndata: {"type":"content_block_start","index":2,'
    b'"content_block":{"type":"tool_use","id":"toolu_1","name":"f","input":{}}}\n\n'
    b'event: content_block_delta\ndata: {"type":"content_block_delta","index":2,'
    b'"delta":{"type":"input_json_delta","partial_json":""}}\n\n'
    b'event: content_block_delta\ndata: {"type":"content_block_delta","index":2,'
    b'"delta":{"type":"input_json_delta","partial_json":"{}"}}\n\n'
    b'event: content_block_stop\ndata: {"type":"content_block_stop","index":2}\n\n'
    b'event: message_delta\ndata: {"type":"message_delta","delta":{"stop_reason":"tool_use","stop_sequence":null},'
    b'"usage":{"output_tokens":9,"output_tokens_details":{"thinking_tokens":2}}}\n\n'
    b'event: message_stop\ndata: {"type":"message_stop"}\n\n'
)
