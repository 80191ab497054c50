"""Licence terms as plain text. Knows nothing of where they come from."""

from __future__ import annotations

from html.parser import HTMLParser

_BLOCKS = frozenset({"p", "div", "li", "ul", "ol", "h1", "h2", "h3", "h4", "h5", "h6", "br", "tr", "section"})
_HIDDEN = frozenset({"script", "style", "nav", "header", "footer", "button", "template", "noscript", "svg", "select"})


class _Text(HTMLParser):
    """Collects what a reader of the page would read; from its article alone when the page has one."""

    def __init__(self, wanted: str) -> None:
        super().__init__(convert_charrefs=True)
        self.pieces: list[str] = []
        self._wanted = wanted
        self._n_wanted = 0
        self._n_hidden = 0
        self._has_title = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._n_wanted += tag == self._wanted
        self._n_hidden += tag in _HIDDEN
        if tag == "h1" and not self._has_title:
            # What stands before the title is the site's, not the text's.
            self._has_title = True
            self.pieces.clear()
        self._break_before(tag)

    def handle_endtag(self, tag: str) -> None:
        self._n_wanted -= tag == self._wanted
        self._n_hidden -= tag in _HIDDEN
        self._break_before(tag)

    def handle_data(self, data: str) -> None:
        if self._n_wanted > 0 and self._n_hidden <= 0:
            self.pieces.append(data.replace("\n", " "))

    def _break_before(self, tag: str) -> None:
        if tag in _BLOCKS:
            self.pieces.append("\n")


def plain_text(document: str) -> str:
    """The readable text of an HTML page, a paragraph a line; any other text comes back as it is."""
    lowered = document.lower()
    if "<html" not in lowered:
        return document
    parser = _Text("article" if "<article" in lowered else "body" if "<body" in lowered else "html")
    parser.feed(document)
    parser.close()
    lines = (" ".join(line.split()) for line in "".join(parser.pieces).split("\n"))
    return "\n".join(line for line in lines if line)
