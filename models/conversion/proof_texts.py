"""Texts on which tokenizers that look alike differ: the built-in set of every conversion's proof.

Each stands for a place where one way of cutting text and another part: digits, white space,
contractions, letters outside ASCII, marks, bytes without a letter.
"""

from __future__ import annotations

PROOF_TEXTS: tuple[str, ...] = (
    "Hello world",
    " Hello  world ",
    "The quick brown fox jumps over the lazy dog. It's 2024, isn't it?",
    # Digits, alone, in runs, after spaces and inside words.
    "1 22 333 4444 55555 666666 7777777 88888888",
    "in 1999 and 12345, at 3.14159 or 1,000,000; x1 y22 z333 4u",
    " 7 77  777   7777",
    "v1.2.3-rc4 0x1F 1e-5 192.168.0.1 2024-01-31T23:59:59",
    # Numbers that are not ASCII digits.
    "٣٤٥٦ ۱۲۳ १२३४ ๑๒๓ ½ ¼ ² ³ ① ⅷ Ⅻ 十二",
    # White space: runs, line ends, tabs, and signs that are spaces only sometimes.
    "a b  c   d    e     f      g       h        i",
    "                                                                                end",
    "\n\n\n\n  \n\t\n \t \n",
    "one\r\ntwo\r\n\r\nthree\rfour\n\r\nfive",
    "tab\tand\t\ttabs\t \t mixed   \n   indented\n\t\tdeeper  \n",
    "trailing spaces   \nnext   ",
    " \n \n  a",
    "no\u00a0break\u2003em\u2009thin\u3000wide\u200bzero\u2028line\u2029paragraph",
    # Contractions in every case, and apostrophes that are none.
    "I'm you're he's we'll they've I'd don't",
    "I'M YOU'RE HE'S WE'LL THEY'VE I'D DON'T",
    "It'S You'Re We'Ll 'tis 'S 'll 'x ' '' '''s o'clock rock'n'roll",
    "it’s “quoted” ‘single’",
    # Capitals and small letters, run together and not.
    "camelCase PascalCase HTTPServer snake_case SCREAMING_CASE kebab-case iPhone McDonald",
    "ÀÉÎÕÜ àéîõü Straße ǅ ŒUVRE ıIİi ΑΒΓαβγ ПриветМир ЁЖИКёжик",
    # Scripts without spaces, from right to left, and with marks on letters.
    "你好，世界。我想在apple工作1314151天～",
    "日本語のテキスト、カタカナとひらがな。ｶﾅ 한국어 문장입니다",
    "مرحبا بالعالم، كيف حالك؟ שלום עולם",
    "नमस्ते दुनिया क्षत्रिय ภาษาไทยไม่มีช่องว่าง កាន់តែពិសេស",
    "cafe\u0301 nai\u0308ve A\u030a o\u0302\u0323 Vie\u0302\u0323t Z\u0351\u036b\u0343a\u0337lgo",
    "café naïve Å ộ Việt ﬁ ﬂ Å Ω",
    "ᄀ\u1161\u11a8 가 각",
    # Pictures, with joiners, skin tones, flags and selectors.
    "😀😃 👍🏽 👨‍👩‍👧‍👦 🏳️‍🌈 🇩🇪🇯🇵 ❤️ ✅ 1️⃣ 🦙🦙 😶‍🌫️",
    "text😀more 🚀launch",
    # Code and marks of all kinds.
    "def main(argv):\n    for i in range(10):\n        print(f'{i:>3}', end='')\n\n\n",
    'if (a != b && c <= d) { return x->y[0]++; } // "quoted" \\n\n',
    '<html><body class="x">&amp;</body></html> <|not_a_token|> </tag>',
    "SELECT * FROM t WHERE a='it''s' AND b>=10.5;--comment",
    '{"key": [1, 2.50, -3e10, null, true], "url": "https://a.b/c?d=e&f=%20#g"}',
    "$100 €50 £9.99 ¥1000 + = < > ^ ~ ` | \\ / # @ % & * ( ) _ - !!! ??? ...... ------ ======",
    "((())) [[]] {{}} ::= ->> <<- ||| &&& ##### ***bold*** ~~~ ```python\n```\n",
    "path/to/file.txt C:\\Users\\x \\\\server\\share ./a/../b //comment /* block */\n/",
    "a.b,c;d:e!f?g-h_i/j\\k|l(m)n[o]p{q}r<s>t\"u'v`w~x@y#z",
    "!\n?\n.\n\n,\r\n;",
    # Signs that a vocabulary itself uses for spaces and bytes.
    "▁ ▁▁ ▁a a▁ Ġ Ċ ĠĊ <0x0A> <0x41> ¿ Ã©",
    # Bytes without a letter, control characters, and the ends of the code space.
    "nul\x00byte \x00\x00",
    "\x01\x02\x1b[31mred\x1b[0m\x7f\x80\x9f",
    "\ufeffbom \ufffd replacement \ufffc \ue000 private",
    "𝕳𝖊𝖑𝖑𝖔 𝟙𝟚𝟛 𠀀𠜎 𐍈 \U0001f9ff \U0010ffff",
    # A long word, a long line, a long run.
    "a" * 200,
    "Donaudampfschifffahrtsgesellschaftskapitän" * 3,
    "=" * 77 + "\n" + "-" * 33 + " " * 45 + "x" + "\n" * 40 + "y",
    "ha" * 60 + "!" * 25,
)
