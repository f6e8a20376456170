#!/usr/bin/env python3
"""Makes test/unit/text/data: small tokenizers, a corpus of hard strings, and the ids that the PyPI
package `tokenizers` gives them. Run by hand; the results are committed.

  python scripts/goldens/tokenizer.py [--smollm2 DIR]

--smollm2 also writes the ids of SmolLM2's own tokenizer (DIR/tokenizer.json, which is not committed).
"""

import argparse
import copy
import json
import pathlib
import sys

import tokenizers
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

ROOT = pathlib.Path(__file__).resolve().parents[2]
DATA = ROOT / "test" / "unit" / "text" / "data"

GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
QWEN2 = LLAMA3.replace("{1,3}", "")
GPT4O = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+"
    r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
DEEPSEEK3 = (
    r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"""
    r"| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)

# Article 1 of the Universal Declaration of Human Rights, and bits of code: what the small tokenizers
# are trained on.
TRAINING = [
    "All human beings are born free and equal in dignity and rights. They are endowed with reason and "
    "conscience and should act towards one another in a spirit of brotherhood.",
    "Tous les êtres humains naissent libres et égaux en dignité et en droits. Ils sont doués de raison "
    "et de conscience et doivent agir les uns envers les autres dans un esprit de fraternité.",
    "Alle Menschen sind frei und gleich an Würde und Rechten geboren. Sie sind mit Vernunft und "
    "Gewissen begabt und sollen einander im Geist der Brüderlichkeit begegnen.",
    "Todos los seres humanos nacen libres e iguales en dignidad y derechos y, dotados como están de "
    "razón y conciencia, deben comportarse fraternalmente los unos con los otros.",
    "Все люди рождаются свободными и равными в своем достоинстве и правах. Они наделены разумом и "
    "совестью и должны поступать в отношении друг друга в духе братства.",
    "Όλοι οι άνθρωποι γεννιούνται ελεύθεροι και ίσοι στην αξιοπρέπεια και τα δικαιώματα.",
    "人人生而自由,在尊严和权利上一律平等。他们赋有理性和良心,并应以兄弟关系的精神相对待。",
    "すべての人間は、生まれながらにして自由であり、かつ、尊厳と権利とについて平等である。",
    "모든 인간은 태어날 때부터 자유로우며 그 존엄과 권리에 있어 동등하다.",
    "يولد جميع الناس أحرارا متساوين في الكرامة والحقوق.",
    "כל בני האדם נולדו בני חורין ושווים בערכם ובזכויותיהם.",
    "มนุษย์ทั้งหลายเกิดมามีอิสระและเสมอภาคกันในเกียรติศักดิ์และสิทธิ",
    "सभी मनुष्यों को गौरव और अधिकारों के मामले में जन्मजात स्वतन्त्रता और समानता प्राप्त है।",
    "Tất cả mọi người sinh ra đều được tự do và bình đẳng về nhân phẩm và quyền.",
    "def main(argc, argv):\n    for i in range(10):\n        print(f'{i:>4} {argv[i]}')\n    return 0\n",
    "int main(void) {\n\tfor (int i = 0; i < 10; ++i)\n\t\tprintf(\"%d\\n\", i);\n\treturn 0;\n}\n",
    "    if (x == 1) {\n        return x;\n    } else {\n        return 2 * x;\n    }\n",
    "I'm sure we've seen they're what he'd said; it's what you'll do, isn't it? 1234567890 2024-01-31",
]

CORPUS = [
    "", " ", "  ", "   ", "a", " a", "a ", "Hello, world!", "Hello  world", "hello   world   ",
    " leading and trailing ", "The capital of France is", "THE QUICK BROWN FOX",
    # contractions, in ASCII and not
    "I'm we've they're he'd it's you'll isn't", "I'M WE'VE THEY'RE HE'D IT'S YOU'LL ISN'T",
    "I\u2019m it\u2019s", "'s'S'\u017f'\u212a'd", "'ſ't'T 'Re 'lL", "'''s''t", "it's.'ll",
    # white space
    "\t", "\n", "\r\n", "\r", "\n\n\n", "a\nb", "a\r\nb\r\n", "a \n b", "a\n  b", "  \n  ", "\n \n",
    "x\t\ty", "\t\tif x:\n\t\t\treturn\n", "a\u00a0b", "a\u00a0\u00a0b", "a\u3000b\u3000\u3000c",
    "a\u2003b\u2028c\u2029d", "a\u0085b", "a\x0bb\x0cc", "a\u180eb", "a\u200bb", "a\ufeffb", "\ufeffabc",
    "a\u1680b\u202f\u205fc", " \u00a0 \t \u3000 ", "a   \u00a0   b", "end with spaces     ",
    "          ten", "  two\n    four\n        eight\n",
    # control characters
    "\x00", "a\x00b", "".join(map(chr, range(0, 32))), "\x7f\x80\x81\x9f", "\x1b[31mred\x1b[0m",
    "\x04\x06\x13\x14\x16\x1d", "a\x04b \x06c",
    # digits and numbers of several scripts
    "0", "12", "123", "1234", "12345", "1234567890123", "3.14159", "1,000,000", "1e-5", "0x1F", "a1b2c3",
    "1st 2nd 3rd", "2024-01-31T12:34:56Z", "\u0661\u0662\u0663", "\u0967\u0968\u0969\u096a",
    "\u0e51\u0e52\u0e53", "\uff11\uff12\uff13", "\u00b2\u00b3\u00b9\u00bc\u00bd", "\u2160\u2161\u216f",
    "\u2460\u2461\u24ea", "\u4e00\u4e8c\u4e09", "x\u00b2+y\u00b2", "\U0001d7ce\U0001d7cf", "10\u00b5m 5\u20ac",
    "\u3007\u5341", "\u0be7\u0bf0",
    # Latin with marks, composed and not
    "caf\u00e9", "cafe\u0301", "na\u00efve fa\u00e7ade", "\u1e69", "s\u0323\u0307", "s\u0307\u0323",
    "A\u030a \u212b \u00c5", "\u2126 \u03a9", "e\u0301\u0301\u0301", "\u0301", " \u0301a", "a\u0301\u0316\u0327b",
    "\u0344", "\u0f73\u0f71", "Z\u0351\u036b\u0343\u036a\u0302\u036b\u033d\u034f\u0334\u0319\u0324A\u0325",
    "\ufb01 \ufb03 \u1e9e \u00df SS", "\u0130\u0131 Ii", "\u01c5\u01c8 \u02b0\u02b7",
    # scripts
    "\u1112\u1161\u11ab\u1100\u116e\u11a8", "\ud55c\uad6d\uc5b4 \ud14d\uc2a4\ud2b8", "한국어 문장입니다.",
    "人人生而自由,在尊严和权利上一律平等。", "漢字とひらがなとカタカナ。", "ﾊﾝｶｸ", "東京2020年", "中文English混排123",
    "𠮷野家 𪜶", "สวัสดีชาวโลก มนุษย์ทั้งหลาย", "ภาษาไทย๑๒๓", "مرحبا بالعالم", "الْعَرَبِيَّة ١٢٣", "שלום עולם",
    "שָׁלוֹם", "नमस्ते दुनिया", "क्षि ज्ञ", "தமிழ்", "Привет, мир! Ёжик", "Γειά σου Κόσμε ΰ ΐ", "Tiếng Việt: ữ ổ",
    "ქართული", "አማርኛ", "ខ្មែរ", "မြန်မာ", "བོད་ཡིག", "Հայերեն", "ᏣᎳᎩ", "𐤀𐤁", "𝒳𝓎 𝔘𝔫𝔦", "ꙮ",
    "English עברית العربية mixed",
    # emoji
    "😀", "😀😀😀", "a😀b", "👍🏽", "👨‍👩‍👧‍👦", "🏳️‍🌈", "🇫🇷🇩🇪", "1️⃣ #️⃣", "❤️ ♥ ☺︎", "🧑🏿‍🚀!", " 😀 ", "\u200d\ufe0f",
    # punctuation and symbols
    "!!!", "...", "?!?!", " ... ", "\u2026", "\u201cquoted\u201d \u2018single\u2019", "\u00abguillemets\u00bb", "--- \u2014 \u2013",
    "a/b\\c|d", "$100 \u20ac50 \u00a5", "a+b=c", "x_y_z __init__", "#hashtag @user", "~`^", "(a)[b]{c}<d>",
    "\u2211\u222b\u221e \u2264 \u2260", "\u3001\u3002\u300c\u300d", "\u00a1\u00bf", "a.b.c", "e.g., i.e.", "http://example.com/a?b=c&d=%20#e",
    "user@example.com", "C:\\Users\\x", "wow!!!\n\nnext", "end.\r\n\r\nNext", "a...\n", " !\n\n",
    # special, private and unassigned
    "\ufffd", "\ufffd\ufffd\ufffdabc", "\ufffe\uffff", "\ue000\uf8ff", "\U000f0000\U0010ffff", "\ufdd0", "\u0378",
    "\U000e0001\U000e0061", "\u2066x\u2069", "\u202eabc\u202c", "\u00ad soft", "\ufff9\ufffb", "\u061c",
    "\u00c3\u00a9\u00e2\u20ac\u2122", "\u0120\u010a\u0109", "\u0120the", "<0x0A>", "\\ud800", "\\x00",
    # what looks like special tokens
    "<|endoftext|>", "a<|endoftext|>b", "<|endoftext|><|endoftext|>", " <|endoftext|> ", "<|endoftext",
    "<|endoftext|", "<|im_start|>system\nYou are<|im_end|>\n<|im_start|>user\nhi<|im_end|>",
    "x<|im_end|>\n<|im_start|>system\ny", "<|im_start|><|im_start|", "<|im_ start|>", "<<|im_end|>>", "<|IM_END|>",
    "<|begin_of_text|>x<|eot_id|>", "<s>x</s>", "[INST] x [/INST]", "<tool>", "</tool>", "a <tool> b", "a<tool>b",
    "  <strip>  x", "x\t\n<strip>\u00a0\u3000y", "<strip><strip> <strip>", " <strip>", "<strip> ", "<word>",
    "a<word>b", "a <word> b", "\u00e9<word>", "<word>\u0301", "_<word>_", "(<word>)", "<word>\u200d", "9<word>", "\u00b2<word>", "<word>\u00bd", "\u24b6<word>", "<word>\u2160", "\u200c<word>",
    "caf\u00e9s", "cafe\u0301s", "xcaf\u00e9 cafe\u0301x", "<a><ab><abc><abcd>", "<ab<abc>", "<abc<ab>>", "<left>  x  <left>  <right>",
    "  <right>  <right>  ", "<unk> \x04", "yesyes yes",
    # code
    "def f(x):\n    return x + 1\n", "for (int i = 0; i < n; ++i) {\n\tsum += a[i];\n}\n", "if(a&&b||!c){}",
    "SELECT * FROM t WHERE id=1;", "{\"key\": [1, 2.5, null, true]}", "<div class=\"x\">&nbsp;</div>",
    "#include <stdio.h>\n\nint main() { return 0; }", "camelCaseHTTPServer snake_case", "a->b::c", "x = y ** 2 // 3 % 4",
    "/* comment */ // line\n", "\\alpha \\frac{1}{2}$$", "```python\nprint('hi')\n```", "- item\n  - nested\n    1. deep",
    "|a|b|\n|-|-|\n", "git commit -m \"msg\"", "100% sure; 50/50", "std::vector<std::pair<int, int>> v;",
    # long runs
    "a" * 3000, "ab" * 1000, " " * 1000, " " * 999 + "x", "\n" * 500, "\t \n" * 200, "!" * 700, "0" * 700,
    "1 " * 300, "é" * 500, "e\u0301" * 300, "\u0316\u0301" * 300, "😀" * 200, "人" * 400, "ก็" * 200, "\u00a0" * 300, "-" * 1000,
    "the " * 300, "=" * 79 + "\n", "A" * 500 + "a" * 500, "<|im_start|>" * 50, "<" * 300, "\ufffd" * 200, "'s" * 100,
    " a" * 200, "\r\n" * 200, "é e\u0301 " * 50, "x\x00" * 100, "\u200d" * 100, "ﬁ" * 100,
]  # fmt: skip


def bpe(training, merges, pre_tokenizer, normalizer=None, alphabet=None, **model):
    tok = Tokenizer(models.BPE(**model))
    tok.pre_tokenizer = pre_tokenizer
    if normalizer:
        tok.normalizer = normalizer
    trainer = trainers.BpeTrainer(
        vocab_size=merges + len(alphabet), initial_alphabet=alphabet, show_progress=False, min_frequency=1
    )
    tok.train_from_iterator(training, trainer)
    tok.decoder = decoders.ByteLevel()
    return tok


def byte_level(prefix=False, regex=True):
    return pre_tokenizers.ByteLevel(add_prefix_space=prefix, use_regex=regex)


def make_tokenizers():
    seq, split, digits = pre_tokenizers.Sequence, pre_tokenizers.Split, pre_tokenizers.Digits
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    result = {}

    tok = bpe(TRAINING, 800, byte_level(), alphabet=alphabet)
    tok.add_special_tokens(["<|endoftext|>"])
    result["gpt2"] = tok

    words = Regex(LLAMA3)
    tok = bpe(TRAINING, 700, seq([split(words, "isolated"), byte_level(regex=False)]), alphabet=alphabet, ignore_merges=True)
    tok.add_special_tokens(["<|begin_of_text|>", "<|endoftext|>", "<|eot_id|>"])
    bos = tok.token_to_id("<|begin_of_text|>")
    data = json.loads(tok.to_str())
    # Words that no merges lead to, so that ignore_merges shows: one of them special.
    for word in ["ĠTHE", "SELECT", "yesyes", "Ġquick"]:
        data["model"]["vocab"][word] = len(data["model"]["vocab"]) + 3
    data["added_tokens"].append(dict(data["added_tokens"][0], content="yesyes", id=data["model"]["vocab"]["yesyes"]))
    # The ids of added tokens follow those of the vocabulary: move the words before them.
    vocab = data["model"]["vocab"]
    shift = {old: new for new, old in enumerate(sorted(vocab.values()))}
    data["model"]["vocab"] = {t: shift[i] for t, i in vocab.items()}
    for n, added in enumerate(data["added_tokens"][:3]):
        added["id"] = len(vocab) + n
    data["added_tokens"][3]["id"] = data["model"]["vocab"]["yesyes"]
    bos = data["added_tokens"][0]["id"]
    data["post_processor"] = {
        "type": "Sequence",
        "processors": [
            {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": False, "use_regex": True},
            {
                "type": "TemplateProcessing",
                "single": [{"SpecialToken": {"id": "<|begin_of_text|>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
                "pair": [{"SpecialToken": {"id": "<|begin_of_text|>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}},
                         {"SpecialToken": {"id": "<|begin_of_text|>", "type_id": 1}}, {"Sequence": {"id": "B", "type_id": 1}}],
                "special_tokens": {"<|begin_of_text|>": {"id": "<|begin_of_text|>", "ids": [bos], "tokens": ["<|begin_of_text|>"]}},
            },
        ],
    }  # fmt: skip
    result["llama3"] = Tokenizer.from_str(json.dumps(data))

    # SmolLM2's form: special tokens first, and some control characters that no token can write.
    some = [c for c in alphabet if c not in "".join(chr(0x100 + b) for b in (4, 6, 19, 20, 22, 29))]
    tok = bpe(TRAINING, 600, seq([digits(individual_digits=True), byte_level()]), alphabet=some)
    data = json.loads(tok.to_str())
    specials = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    vocab = {t: i + 3 for t, i in data["model"]["vocab"].items()} | {t: i for i, t in enumerate(specials)}
    data["model"]["vocab"] = dict(sorted(vocab.items(), key=lambda kv: kv[1]))
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    data["added_tokens"] = [{"id": i, "content": t, **flags} for i, t in enumerate(specials)]
    data["model"]["merges"] = [" ".join(m) for m in data["model"]["merges"]]  # the older form
    result["smollm2-style"] = data

    words = Regex(QWEN2)
    tok = bpe(TRAINING, 700, seq([split(words, "isolated"), byte_level(regex=False)]),
              normalizer=tokenizers.normalizers.NFC(), alphabet=alphabet)  # fmt: skip
    tok.add_special_tokens(["<|endoftext|>", "<|im_start|>", "<|im_end|>"])
    tok.add_tokens(["<tool>", "</tool>", AddedToken("<strip>", lstrip=True, rstrip=True), AddedToken("<word>", single_word=True),
                    AddedToken("cafe\u0301s", normalized=True), AddedToken("\u03a9\u0301", normalized=False),
                    AddedToken("<left>", lstrip=True, normalized=False), AddedToken("<right>", rstrip=True, normalized=False),
                    "<a>", "<ab>", "<abc>", "<abcd", "\u4eba\u4eba"])  # fmt: skip
    result["qwen2"] = tok
    return {name: tok if isinstance(tok, dict) else json.loads(tok.to_str()) for name, tok in result.items()}


def variants():
    """Other settings of a tokenizer above: top-level keys replaced, and keys of the model."""

    def of(base, name, pre=None, model=None, **top):
        if pre is not None:
            top["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": pre}
        return {"name": name, "base": base, "top": top, "model": model or {}}

    def byte(prefix=False, regex=False):
        return {"type": "ByteLevel", "add_prefix_space": prefix, "trim_offsets": True, "use_regex": regex}

    def split(pattern, behavior, invert=False):
        return {"type": "Split", "pattern": pattern, "behavior": behavior, "invert": invert}

    template = {
        "type": "TemplateProcessing",
        "single": [{"SpecialToken": {"id": "B", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}},
                   {"SpecialToken": {"id": "E", "type_id": 0}}],
        "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
        "special_tokens": {"B": {"id": "B", "ids": [5, 6], "tokens": ["x", "y"]}, "E": {"id": "E", "ids": [7], "tokens": ["z"]}},
    }  # fmt: skip
    result = [
        of("gpt2", "prefix space", [byte(True, True)]),
        of("gpt2", "prefix space after digits", [{"type": "Digits", "individual_digits": False}, byte(True, True)]),
        of("gpt2", "no pattern at all", [byte()]),
        of("gpt2", "gpt-4o", [split({"Regex": GPT4O}, "Isolated"), byte()]),
        of("gpt2", "deepseek-v3", [split({"Regex": r"\p{N}{1,3}"}, "Isolated"), split({"Regex": "[一-龥぀-ゟ゠-ヿ]+"}, "Isolated"),
                                   split({"Regex": DEEPSEEK3}, "Isolated"), byte()]),
        of("gpt2", "begin and end tokens", post_processor=template),
        of("gpt2", "normalizer sequence", normalizer={"type": "Sequence", "normalizers": [{"type": "NFC"}]}),
        of("gpt2", "word characters", [split({"Regex": r"\w+|\W"}, "Isolated"), byte()]),
        of("gpt2", "lines", [split({"Regex": r"^.*$|(?<=\n)\s"}, "Isolated"), byte()]),
        of("gpt2", "scripts", [split({"Regex": r"\p{Han}+|\p{Hiragana}+|\p{^Latin}|\P{L}"}, "MergedWithPrevious"), byte()]),
        of("gpt2", "lazy, possessive, lookaround", [split({"Regex": r"a{,2}b??|(?<!\d)\d++(?=\D)|(?>x|xy)[^\S\n]*+|[\s\-\]a-c]{2,3}"}, "Isolated"), byte()]),
        of("gpt2", "empty matches", [split({"Regex": r"x*"}, "MergedWithPrevious"), byte()]),
        of("smollm2-style", "unknown token", model={"unk_token": "<|im_end|>"}),
        of("smollm2-style", "fused unknown token", model={"unk_token": "<|im_end|>", "fuse_unk": True}),
        of("llama3", "merges after all", model={"ignore_merges": False}),
    ]  # fmt: skip
    for behavior in ["Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"]:
        for invert in [False, True]:
            inverted = ", inverted" if invert else ""
            result.append(of("gpt2", f"split {behavior}{inverted}", [split({"Regex": r"[\s.,]|\d+"}, behavior, invert), byte()]))
        result.append(of("gpt2", f"literal {behavior}", [split({"String": "a"}, behavior), byte()]))
    return result


def encode(data, corpus):
    """Ids with special tokens and without, and with special tokens as plain text."""
    tok = Tokenizer.from_str(json.dumps(data))
    ids = [tok.encode(text).ids for text in corpus]
    bare = [tok.encode(text, add_special_tokens=False).ids for text in corpus]
    tok.encode_special_tokens = True
    plain = [tok.encode(text, add_special_tokens=False).ids for text in corpus]
    out = {"ids": ids}
    # Not all, and only what differs, to keep the files small.
    out["bare"] = {str(i): v for i, v in enumerate(bare) if v != ids[i] and i % 8 == 1}
    out["plain"] = {str(i): v for i, v in enumerate(plain) if v != bare[i]}
    return tok, out


def class_ranges(make_pre_tokenizer):
    """The code points that a pre-tokenizer drops, as [first, last]."""
    chars = [c for c in range(0x110000) if not 0xD800 <= c <= 0xDFFF]
    text = "".join(map(chr, chars))
    kept = set()
    for start in range(0, len(text), 1 << 16):
        part = text[start : start + (1 << 16)]
        for _, (begin, end) in make_pre_tokenizer.pre_tokenize_str(part):
            kept.update(chars[start + begin : start + end])
    ranges = []
    for c in chars:
        if c in kept:
            continue
        if ranges and ranges[-1][1] == c - 1:
            ranges[-1][1] = c
        else:
            ranges.append([c, c])
    return ranges


def write(name, value):
    text = json.dumps(value, ensure_ascii=True, separators=(",", ":"))
    (DATA / name).write_text(text + "\n")
    print(f"{name}: {len(text)} bytes")


def main():
    args = argparse.ArgumentParser()
    args.add_argument("--smollm2", type=pathlib.Path)
    args = args.parse_args()
    DATA.mkdir(parents=True, exist_ok=True)
    print("tokenizers", tokenizers.__version__, "python", sys.version.split()[0])
    write("corpus.json", CORPUS)

    made = make_tokenizers()
    for name, data in made.items():
        write(f"{name}.tokenizer.json", data)
        tok, expected = encode(data, CORPUS)
        # Decoding: all pieces of long texts, also cut in the middle of characters.
        decode = []
        for n, ids in enumerate(expected["ids"]):
            cut = ids[: len(ids) // 2 + 1][:40]
            if n % 3 == 0 and cut:
                decode.append([cut, tok.decode(cut, skip_special_tokens=False), tok.decode(cut, skip_special_tokens=True)])
        expected["decode"] = decode
        write(f"{name}.expected.json", expected)

    small = [text if len(text) < 100 else text[:50] for text in CORPUS]
    out = []
    for variant in variants():
        data = copy.deepcopy(made[variant["base"]])
        data.update(variant["top"])
        data["model"].update(variant["model"])
        _, expected = encode(data, small)
        # Of the many variants only every third text, in turn: the files stay small.
        step = len(out) % 3
        out.append(variant | {"ids": {str(i): v for i, v in enumerate(expected["ids"]) if i % 3 == step}})
    write("variants.json", {"corpus": small, "variants": out})

    split = pre_tokenizers.Split
    classes = {p: class_ranges(split(Regex(p), "removed")) for p in
               [r"\s", r"\w", r"\d", r"\p{L}", r"\p{Lu}", r"\p{N}", r"\p{M}", r"\p{P}", r"\p{S}", r"\p{Z}", r"\p{Han}",
                r"(?i:s)", r"(?i:k)", ".", r"[^\s\p{L}\p{N}]"]}  # fmt: skip
    digits = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True)])
    # Digits isolates: a numeric character is a piece of its own between two letters.
    chars = [c for c in range(0x110000) if not 0xD800 <= c <= 0xDFFF]
    numeric = [c for c in chars if len(digits.pre_tokenize_str("a" + chr(c) + "a")) == 3]
    ranges = []
    for c in numeric:
        if ranges and ranges[-1][1] == c - 1:
            ranges[-1][1] = c
        else:
            ranges.append([c, c])
    classes["Digits"] = ranges
    write("classes.json", classes)

    if args.smollm2:
        data = json.loads((args.smollm2 / "tokenizer.json").read_text())
        _, expected = encode(data, CORPUS)
        write("SmolLM2.expected.json", expected)


if __name__ == "__main__":
    main()
