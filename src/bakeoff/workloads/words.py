"""Common English words, from which synthetic prompts and nonces are built.

All are frequent enough to be one token (with their leading space) in most vocabularies, so that text made of them
has a predictable length, and short prompts can be made exact. Content and order are part of the seeded stream: any
change gives other prompts for the same seed.
"""

from __future__ import annotations


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


NOUNS = _words(
    """
    man woman child boy girl friend family house home door window room table chair wall floor street road city town
    village country river sea lake island mountain hill forest field garden tree flower grass leaf stone rock sand sky
    sun moon star rain snow wind storm fire water light day night morning evening week month year summer winter spring
    bird dog cat horse fish sheep lion bear letter book page word story song picture paper pen box bag key clock bell
    coat hat shoe ring cup plate glass knife bread milk sugar salt fruit apple meal dinner kitchen market shop school
    class teacher student lesson question answer number line circle square corner side center top bottom edge end
    hand eye ear face head heart foot arm leg voice mind body doctor hospital office worker engine machine wheel car
    train ship boat bridge station airport map journey trip visit game ball team player goal party music dance
    """
)
VERBS = _words(
    """
    found saw heard made took gave brought kept held left lost met moved opened closed pushed pulled carried covered
    crossed followed passed reached touched turned watched wanted needed liked loved helped called asked told showed
    taught bought sold built broke changed cleaned cut painted wrote read drew sent received remembered knew noticed
    """
)
ADJECTIVES = _words(
    """
    big small long short old new young good bad great high low deep wide thin thick heavy light dark bright warm cold
    hot cool dry wet clean dirty fast slow early late soft hard loud quiet rich poor strong weak happy sad kind free
    full empty open red blue green white black brown yellow simple strange common rare safe fresh sweet sharp round
    """
)
ADVERBS = _words("often never always soon later again once twice slowly quickly quietly finally now then")
PREPOSITIONS = _words("in on under over near behind beside above below after before with without for from")

# One length in letters for all: a nonce then has the same size for tokenizers that count characters or bytes, too.
NONCE_WORDS = _words(
    """
    able also area army away baby back ball bank base bath bear beat been bell best bill bird blow blue boat body bone
    book born both boys burn busy call came camp card care case cash cell chip city clay club coal coat code cold come
    cook cool copy core corn cost crew crop dark data date dawn days dead deal dear deep desk dish door down draw drop
    drug dust duty each earn east easy edge else even ever face fact fair fall farm fast fear feed feel feet fell file
    fill film find fine fire firm fish five flat flow food foot form four free from fuel full fund gain game gate gave
    gift girl give glad goal goes gold gone good gray ride grow hair half hall hand hang hard head hear heat held help
    here hero high hill hold hole home hope host hour huge idea inch into iron item join jump just keep kept kind king
    knee ring know lack lady lake land lane last late lead leaf left lend less life lift like line link list live load
    loan lock long look lord lose loss lost love luck made mail main make male many mark mass meal mean meat meet mile
    milk mind mine miss mode moon more most move much must name near neck need news next nice nine none noon nose note
    once only open over pack page paid pair park part pass past path pick plan play plus pool poor post rain read
    real rest rice rich
    """
)
