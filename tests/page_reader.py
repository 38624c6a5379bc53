"""Reading pages, for the tests of what writes them."""

import html.parser
import re

LOADED_FROM = re.compile(r"(?:src|href|action|data)\s*=\s*[\"']?+(?!#)|@import|url\((?!#)|https?:")
VOID = {"meta", "br", "img", "link", "hr"}


class Reader(html.parser.HTMLParser):
    """Tags that are open, names of elements, words."""

    def __init__(self, page):
        super().__init__()
        self.open, self.ids, self.words, self.tags = [], [], [], []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.handle_startendtag(tag, attrs)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)
        self.ids += [value for name, value in attrs if name == "id"]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data.strip())
