"""Prints events for the pipeline hostile, one a line: of tenants whose names are hard to tell, and of none; and some
that do not fit.

    hostile.py | smelt produce --topic …
"""

import json

TENANTS = [
    None, "", " ", "a", "A", "a ", "..", ".", "a/b=c", "tenant=a", "50%2F%", "a+b c,#?&*~;$1{}[]", "'\"\\`", "\0", "a\0'b",
    "\r\n\t\1\u2028", "'; DROP TABLE silver; --", "s3://other/x/", "NULL", "null", "__HIVE_DEFAULT_PARTITION__", "1", "con.",
    "\u00e4", "a\u0308", "\U0001f469\u200d\U0001f469\u200d\U0001f467\u05e9\u05dc\u202e\uffff", "\u0130", "../" * 300, "\U0010ffff" * 225,
]


def main():
    for n in range(3):
        for tenant in TENANTS:
            event = {"tenant": tenant, "n": n, "made": f"2026-01-01T0{n}:00:00Z", "Sp ace/%=é😀": tenant}
            print(json.dumps(event))
            print(json.dumps(event | {"n": str(n)}))


if __name__ == "__main__":
    main()
