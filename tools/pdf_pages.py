r"""A Sphinx extension: the book as one LaTeX document, for ``tools/pdf.py``.

Parts, chapters and numbers are those of the pages.  What a page folds away stands open (solutions) or is left out
(code of figures and tables).  Tables of pandas, which are HTML, become tables of LaTeX, and theorems its boxes.
"""

import json
import re
import subprocess
from base64 import b64decode
from hashlib import sha256
from pathlib import Path

import imagesize
from bs4 import BeautifulSoup
from docutils import nodes
from sphinx import addnodes
from sphinx.builders.latex import LaTeXBuilder
from sphinx.transforms.post_transforms.images import ImageConverter
from sphinx.util.docutils import new_document
from sphinx_proof.nodes import NODE_TYPES, proof_node, unenumerable_node

LEFT_OUT = ("book/api", "book/explorer")
"""What is for a screen."""
SIZES = {"small": 92, "footnotesize": 104, "scriptsize": 122}
"""How many characters fill a line in each size that tables may have."""
LINE = 6.2
"""Inches."""
LONG = 30
"""Rows; a table with more may go on over the page."""


class BookBuilder(LaTeXBuilder):
    """The pages in the order of the table of contents, one document."""

    def init(self):
        super().init()
        self.inches = {}  # of the pictures that were SVG

    def assemble_doctree(self, indexfile, toctree_only, appendices):
        book = new_document("<the book>")
        book["docname"] = "the-book"
        book += nodes.section("", nodes.title("", "The title page has this one"))
        site = self.config.external_site_map
        pages = [(None, False, [site.root.docname])]
        pages += [
            (tree.caption, bool(tree.numbered), [str(item) for item in tree.items]) for tree in site.root.subtrees
        ]
        self.docnames = {name for _, _, names in pages for name in names if name not in LEFT_OUT}
        for caption, numbered, names in pages:
            if caption and not self.docnames.isdisjoint(names):
                book += raw(f"\\bookpart{{{caption}}}")
            book += raw(f"\\bookchapters{{{2 if numbered else -1}}}")
            book.extend(self.page(name) for name in names if name in self.docnames)
        self.env.resolve_references(book, indexfile, self)
        for change in CHANGES:
            change(self, book)
        numbers = {label: ".".join(map(str, number)) for label, number in self.numbers()}
        Path(self.outdir, "numbers.json").write_text(json.dumps(numbers, indent=1))
        return book

    def get_contentsname(self, indexfile):
        return "Contents"

    def page(self, name):
        """A page, as Sphinx has it where toctrees are put in."""
        page = addnodes.start_of_file(docname=name)
        page.extend(self.env.get_doctree(name).children)
        for toctree in list(page.findall(addnodes.toctree)):
            toctree.parent.remove(toctree)
        for section in page.findall(nodes.section):
            section["docname"] = name
        return page

    def numbers(self):
        """The labels of equations and figures in LaTeX, with the numbers that the pages give them."""
        figures = self.env.toc_fignumbers
        for name in self.docnames:
            yield from ((f"{name}:{each}", number) for each, number in figures.get(name, {}).get("figure", {}).items())
        for label, (name, _) in self.env.get_domain("math").equations.items():
            if name in self.docnames:
                number = figures[name]["displaymath"][nodes.make_id(f"equation-{label}")]
                yield f"equation:{name}:{label}", number


class VectorPictures(ImageConverter):
    """SVG to PDF, by librsvg."""

    conversion_rules = (("image/svg+xml", "application/pdf"),)

    def is_available(self):
        return True  # pdf.py has asked for it

    def convert(self, _from, _to):
        subprocess.run(["rsvg-convert", "--format=pdf", f"--output={_to}", _from], check=True)
        self.app.builder.inches[str(_to)] = svg_inches(Path(_from).read_text())
        return True


def svg_inches(text):
    """How wide an SVG is: what it says, or else its view box, at 96 to the inch.

    >>> svg_inches('<svg width="144pt" viewBox="0 0 9 9">'), svg_inches('<svg viewBox="0 0 480 9">')
    (2.0, 5.0)
    """
    head = re.search(r"<svg[^>]*>", text)[0]
    said = re.search(r'\bwidth="([\d.]+)(pt|px)?"', head)
    if said:
        return float(said[1]) / (72 if said[2] == "pt" else 96)
    return float(re.search(r'viewBox="\S+ \S+ (\S+)', head)[1]) / 96


def raw(text):
    return nodes.raw("", text, format="latex")


def scale_pictures(builder, book):
    """Pictures at seven tenths of their size on the screen, and never wider than a line."""
    for picture in book.findall(nodes.image):
        if not {"width", "scale"} & set(picture.attributes) or picture.get("width", "").endswith(("px", "%")):
            picture["width"] = f"{width(Path(builder.srcdir, picture['uri']), builder.inches):.2f}in"


def width(file, inches):
    """Inches for a picture."""
    if str(file) in inches:
        return min(0.7 * inches[str(file)], LINE)
    pixels, _ = imagesize.get(file)
    dots, _ = imagesize.getDPI(file)
    return min(0.7 * pixels / (dots if dots > 0 else 100), LINE)


def link_inside_only(builder, book):
    """What is not in the PDF is named, not linked."""
    for link in list(book.findall(nodes.reference)):
        page = re.match(r"%([^#]*)", link.get("refuri", ""))
        if page and page[1] not in builder.docnames:
            link.parent.replace(link, link.children)


def leave_out_bare_titles(builder, book):
    """The page of the bibliography, which LaTeX sets at the end of the book, under a heading of its own."""
    for page in list(book.findall(addnodes.start_of_file)):
        title = next(page.findall(nodes.title)).astext()
        if page.astext().strip() == title and not any(page.findall(nodes.image)):
            page.parent.remove(page)
            builder.docnames.discard(page["docname"])


def leave_out_folded_code(builder, book):
    """What only draws a figure or shows a table; the code of a solution stands."""
    for cell in book.findall(lambda node: isinstance(node, nodes.container) and "tag_hide-input" in node["classes"]):
        for part in list(cell.children):
            if "cell_input" in part.get("classes", ()):
                cell.remove(part)


def set_theorems(builder, book):
    """Theorems and their kin with the numbers that the pages have; proofs."""
    kinds = (*NODE_TYPES.values(), unenumerable_node)
    for theorem in list(book.findall(lambda node: isinstance(node, kinds))):
        page, ids = page_of(theorem), theorem["ids"]
        numbers = builder.env.toc_fignumbers.get(page, {}).get(theorem["countertype"], {}).get(ids[0], ())
        heading = f"{theorem['realtype'].title()} {'.'.join(map(str, numbers))}".strip()
        title, content = theorem.children[0], theorem.children[-1]
        labels = "".join(f"\\phantomsection\\label{{\\detokenize{{{page}:{each}}}}}" for each in ids)
        theorem.parent.replace(
            theorem,
            [
                raw(f"\\begin{{booktheorem}}{labels}\\booktheoremtitle{{{heading}}}{{"),
                *inlines(title),
                raw("}"),
                *content.children,
                raw("\\end{booktheorem}"),
            ],
        )
    for proof in list(book.findall(proof_node)):
        inside = proof.children[0]
        first = inside.children[0].children
        if isinstance(first[0], nodes.Text) and first[0].startswith("Proof. "):
            first[:1] = [nodes.emphasis("", "Proof."), nodes.Text(first[0].removeprefix("Proof."))]
        proof.parent.replace(proof, [raw("\\begin{bookproof}"), *inside.children, raw("\\end{bookproof}")])


def inlines(title):
    """The inline nodes of a title, as LaTeX takes them in an argument."""
    return [nodes.inline("", "", *title.children)] if title.children else []


def page_of(node):
    while not isinstance(node, addnodes.start_of_file):
        node = node.parent
    return node["docname"]


TAGS = {"<br>": "\\newline{}", "<wbr>": "\\allowbreak{}", "<code>": "{\\ttfamily{}", "</code>": "}"}
"""HTML among the words of a page, with what it is in LaTeX."""


def set_html(builder, book):
    """Each table of pandas and each picture; what else is HTML is for a screen, and left out."""
    for html in list(
        book.findall(lambda node: isinstance(node, nodes.raw) and "html" in node.get("format", "").split())
    ):
        if html.astext() in TAGS:
            html.parent.replace(html, raw(TAGS[html.astext()]))
            continue
        found = BeautifulSoup(html.astext(), "html.parser").find_all(["table", "img"])
        made = (set_table(each) if each.name == "table" else set_picture(builder, each) for each in found)
        html.parent.replace(html, [node for each in made for node in each])


def set_picture(builder, found):
    """Nodes for an ``<img>`` that has its PNG inside."""
    kind, _, data = found.get("src", "").partition(";base64,")
    if kind != "data:image/png":
        return []
    picture = Path(builder.outdir, f"{sha256(data.encode()).hexdigest()[:16]}.png")
    picture.write_bytes(b64decode(data))
    return [raw(f"\n{{\\centering\\includegraphics[width={width(picture, {}):.2f}in]{{{picture.name}}}\\par}}\n")]


def set_table(found):
    """Nodes for one ``<table>``: its columns as wide as they are if they fit, and folded if not."""
    rows = grid(found.find_all("tr"))
    head = len(found.thead.find_all("tr")) if found.thead else 0
    if head == 2 and not any(above and below for above, below in zip(*rows[:2], strict=True)):
        rows[:2] = [[above or below for above, below in zip(*rows[:2], strict=True)]]  # the index has its name below
        head = 1
    count = len(rows[0])
    numeric = [all(is_number(row[column]) for row in rows[head:]) for column in range(count)]
    group = nodes.tgroup("", *(nodes.colspec() for _ in range(count)), cols=count)
    if head:
        group += nodes.thead("", *map(set_row, rows[:head]))
    group += nodes.tbody("", *map(set_row, rows[head:]))
    table = nodes.table("", group)
    caption = found.find("caption")
    if caption and caption.get_text(strip=True):
        table.insert(0, nodes.title("", "", *texts(caption.get_text(strip=True))))
    return lay_out(table, [list(map(plain, row)) for row in rows], numeric)


def set_page_tables(builder, book):
    """The tables that pages write themselves."""
    for table in list(book.findall(nodes.table)):
        rows = [[seen(entry) for entry in row] for row in table.findall(nodes.row)]
        if len({len(row) for row in rows}) == 1 and not isinstance(before(table), addnodes.tabular_col_spec):
            table.parent.replace(table, lay_out(table, rows, [False] * len(rows[0])))


def before(node):
    place = node.parent.index(node)
    return node.parent[place - 1] if place else None


def seen(entry):
    """The text of a cell, of mathematics what is seen."""
    return plain(entry.astext().replace("\\newline{}", "\n"))


def lay_out(table, rows, numeric):
    """The table with widths for its columns: LaTeX finds them, or, where it goes on over pages, in proportion."""
    widths = [max(len(line) for row in rows for line in row[column].split("\n")) for column in range(len(rows[0]))]
    size, letters = columns(widths, numeric)
    if len(rows) > LONG and letters.isupper():
        for column, width in zip(table.findall(nodes.colspec), widths, strict=True):
            column["colwidth"] = max(8, min(width, 90))
        table["classes"].append("colwidths-given")
        return [table]
    spec = addnodes.tabular_col_spec()
    spec["spec"] = letters
    return [raw(f"\\renewcommand{{\\booktablesize}}{{\\{size}}}"), spec, table]


def columns(widths, numeric):
    """The size of a table's type and LaTeX's letters for the columns; where no size fits, of the kind that folds text.

    >>> columns([10, 5, 5], [False, True, True])
    ('small', 'lrr')
    >>> columns([80, 40, 5], [False, False, True])
    ('small', 'LLR')
    """
    letters = "".join("r" if each else "l" for each in numeric)
    sizes = SIZES if any(numeric) else {"small": SIZES["small"]}  # words are folded sooner than they are set smaller
    fits = [size for size, characters in sizes.items() if sum(widths) + 2 * len(widths) <= characters]
    if fits:
        return fits[0], letters
    return ("scriptsize" if all(numeric[1:]) else "small"), letters.upper()


def grid(rows):
    """The texts of a table's cells, row by row, with empty ones where a cell spans others."""
    taken, texts_of = {}, []
    for number, row in enumerate(rows):
        line = []
        for cell in row.find_all(["td", "th"]):
            while taken.get((number, len(line))):
                line.append("")
            for down in range(1, int(cell.get("rowspan", 1))):
                taken.update({(number + down, len(line) + right): True for right in range(int(cell.get("colspan", 1)))})
            line += [cell.get_text(" ", strip=True)] + [""] * (int(cell.get("colspan", 1)) - 1)
        texts_of.append(line)
    count = max(map(len, texts_of))
    return [line + [""] * (count - len(line)) for line in texts_of]


def is_number(text):
    """Is this what one reads down a column: a number, with its unit or interval, or nothing?

    >>> [is_number(each) for each in ("1.5e-03", "99%", "0.2 to 0.3", "−4 ± 1", "", "AdaScale")]
    [True, True, True, True, True, False]
    """
    return not re.search(r"[A-DF-Za-df-z]", re.sub(r"\b(to|inf|nan|dB|dBm|ms|min|s|m|W)\b", "", plain(text)))


def plain(text):
    """What of a text is seen, roughly: TeX counts without its commands."""
    return re.sub(r"\\[A-Za-z]+|[${}^_]", "", text)


def set_row(cells):
    return nodes.row("", *(nodes.entry("", nodes.paragraph("", "", *texts(cell))) for cell in cells))


def texts(text):
    """Text nodes, with mathematics where the text has ``$...$``."""
    for number, part in enumerate(re.split(r"\$([^$]+)\$", text)):
        if part:
            yield nodes.math(part, part) if number % 2 else nodes.Text(part)


CHANGES = (
    leave_out_bare_titles,
    link_inside_only,
    leave_out_folded_code,
    set_theorems,
    set_html,
    set_page_tables,
    scale_pictures,
)


def setup(app):
    app.add_post_transform(VectorPictures)
    app.add_builder(BookBuilder, override=True)
    return {"parallel_read_safe": True}
