"""Licence pages as plain text."""

from edgespec.library.terms import plain_text

PAGE = """<!DOCTYPE html><html><head><title>no</title><style>p {no: 1}</style></head>
<body><nav>no <p>no</p></nav><article><p>no, above the title</p><h1>Terms</h1>
<p>You may &quot;use&quot; it,<br>if <b>you</b> are
kind.</p><script>no()</script><ul><li>one</li><li>two</li></ul><h1>Second</h1></article><footer>no</footer></body></html>"""


def test_only_the_article_is_read() -> None:
    assert plain_text(PAGE) == 'Terms\nYou may "use" it,\nif you are kind.\none\ntwo\nSecond'


def test_a_page_without_article() -> None:
    assert plain_text("<html><body><p>a</p><p>b</p></body></html>") == "a\nb"
    assert plain_text("<html><p>a</p></html>") == "a"


def test_plain_text_stays() -> None:
    assert plain_text("line 1\n  line 2 < 3\n") == "line 1\n  line 2 < 3\n"


def test_broken_markup_is_no_error() -> None:
    assert plain_text("<html><body><p>a</div></nav><b>c<") == "a\nc<"
