"""Folders of documents: Markdown and text as they are, HTML, PDF and DOCX converted."""

import io
import multiprocessing
import os
import zipfile
from pathlib import Path
from threading import Timer

import pytest

from local2.errors import BadRequestError
from local2.sources import documents
from local2.sources.files import DOCX_PART, file_at
from local2.sources.items import Document
from local2.sources.opening import opened
from sources_made_up import archive_of

WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
CONTENT_TYPES = """<?xml version="1.0"?>
<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">
<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>
<Default Extension="xml" ContentType="application/xml"/>
<Override PartName="/word/document.xml" ContentType=
"application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml"/></Types>"""
RELATIONS = """<?xml version="1.0"?>
<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">
<Relationship Id="r1" Target="word/document.xml" Type=
"http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument"/>
</Relationships>"""


def docx(text: str) -> bytes:
    """A Word document with one paragraph."""
    written = io.BytesIO()
    paragraph = f"<w:p><w:r><w:t>{text}</w:t></w:r></w:p>"
    with zipfile.ZipFile(written, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("[Content_Types].xml", CONTENT_TYPES)
        archive.writestr("_rels/.rels", RELATIONS)
        archive.writestr(
            "word/document.xml",
            f'<?xml version="1.0"?><w:document xmlns:w="{WORD}"><w:body>{paragraph}</w:body>'
            "</w:document>",
        )
    return written.getvalue()


def pdf(text: str) -> bytes:
    """A PDF file with one line."""
    drawn = f"BT /F1 12 Tf 72 720 Td ({text}) Tj ET".encode()
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 4 0 R /Resources 6 0 R >>",
        b"<< /Length %d >>\nstream\n%s\nendstream" % (len(drawn), drawn),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
        b"<< /Font << /F1 5 0 R >> >>",
    ]
    file, places = b"%PDF-1.4\n", []
    for number, content in enumerate(objects, 1):
        places.append(len(file))
        file += b"%d 0 obj\n%s\nendobj\n" % (number, content)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    head = b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    trailer = b"trailer\n<< /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n"
    return file + head + table + trailer % (len(objects) + 1, len(file))


def read(path: Path) -> tuple[dict[str, str], dict[str, list[str]]]:
    """The texts of the documents by their titles, and the names of what was left out by reason."""
    with opened(path) as source:
        items = [item for item in source.items() if isinstance(item, Document)]
        assert source.format == "documents"
        assert source.bytes_read == source.total_bytes
    left_out = {one.reason: one.names for one in source.left_out.groups()}
    return {item.title: item.content for item in items}, left_out


def test_a_folder_is_read_with_its_html_pdf_and_docx(tmp_path: Path) -> None:
    folder = tmp_path / "notes"
    (folder / "deep").mkdir(parents=True)
    (folder / ".git").mkdir()
    (folder / ".git" / "config.txt").write_text("hidden")
    (folder / "plain.md").write_bytes("\ufeff# Moss\n\nGrows.".encode())
    (folder / "deep" / "page.html").write_text(
        "<html><head><title>t</title><script>evil()</script></head>"
        "<body><h1>Fern</h1><p>Grows, <b>too</b>.</p></body></html>"
    )
    (folder / "paper.pdf").write_bytes(pdf("Lichen grows on stone."))
    (folder / "letter.docx").write_bytes(docx("Algae grow in water."))
    (folder / "latin.txt").write_bytes(b"\xe9t\xe9")
    (folder / "empty.txt").write_text(" \n")
    (folder / "long.txt").write_text("x" * 900_001)
    (folder / "broken.pdf").write_bytes(b"%PDF-1.4\n" + os.urandom(100))
    (folder / "torn.pdf").write_bytes(b"%PDF-1.4\n")  # a download that broke off
    (folder / "picture.png").write_bytes(b"\x89PNG")
    (tmp_path / "secret.txt").write_text("secret")
    (folder / "link.txt").symlink_to(tmp_path / "secret.txt")
    (folder / "elsewhere").symlink_to(tmp_path, target_is_directory=True)
    os.mkfifo(folder / "pipe.txt")
    archive = archive_of(folder / "inner.zip", {"notes.txt": "inside"})
    with zipfile.ZipFile(folder / "bomb.docx", "w", zipfile.ZIP_DEFLATED) as bomb:
        bomb.writestr(DOCX_PART, b" " * 50_000_000)

    texts, left_out = read(folder)
    in_archive, _ = read(archive)
    (alone,), _ = read(folder / "letter.docx")

    assert texts.pop("plain") == "# Moss\n\nGrows."
    assert texts.pop("page").split() == ["#", "Fern", "Grows,", "**too**."]
    assert texts.pop("paper").strip() == "Lichen grows on stone."
    assert texts.pop("letter").strip() == "Algae grow in water."
    assert texts == {}
    unread = left_out.pop("documents that could not be read")
    assert {name.partition(":")[0] for name in unread} == {
        "latin.txt", "empty.txt", "long.txt", "broken.pdf", "torn.pdf", "bomb.docx",
    }  # fmt: skip
    assert sum("zip bomb" in name for name in unread) == 1
    assert left_out == {
        "hidden files": [".git"],
        "links": ["elsewhere", "link.txt"],
        "no files, but pipes or devices": ["pipe.txt"],
        "files of other kinds": ["inner.zip", "picture.png"],
    }
    assert in_archive == {"notes": "inside"}
    assert alone == "letter"


def test_what_the_readers_of_documents_complain_about_is_not_printed(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "colour.pdf").write_bytes(pdf("Moss) Tj /Green g (is green."))
    (tmp_path / "page.html").write_text("<?xml version='1.0'?><feed><p>Fern grows.</p></feed>")

    texts, left_out = read(tmp_path)

    assert (set(texts), left_out) == ({"colour", "page"}, {})
    assert capfd.readouterr() == ("", "")


def test_a_document_that_needs_too_much_is_left_out_and_the_next_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(documents, "CONVERTING_SECONDS", 3)
    (tmp_path / "a.html").write_text("<p>Fern</p>" * 1_000_000)
    (tmp_path / "b.html").write_text("<p>Fern</p>")

    texts, left_out = read(tmp_path)

    assert {title: text.strip() for title, text in texts.items()} == {"b": "Fern"}
    ((name,),) = left_out.values()
    assert name == "a.html: Converting it needs too much time or memory."


def test_reading_can_be_stopped_also_while_a_document_is_converted(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("Moss")
    (tmp_path / "b.html").write_text("<p>Fern</p>" * 1_000_000)
    (tmp_path / "c.md").write_text("Lichen")

    with opened(tmp_path) as source:
        items = source.items()
        first = next(items)
        Timer(1.0, source.stop).start()
        rest = list(items)

    assert isinstance(first, Document)
    assert first.title == "a"
    assert rest == []


def test_a_converted_document_needs_the_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(documents, "find_spec", lambda _: None)
    (tmp_path / "a.pdf").write_bytes(pdf("Lichen"))

    _, left_out = read(tmp_path)

    ((name,),) = left_out.values()
    assert "local2-memory[documents]" in name


def test_a_process_that_has_ended_costs_one_document_and_the_next_is_read(tmp_path: Path) -> None:
    (tmp_path / "large.html").write_text("<p>Fern</p>" * 20_000)
    (tmp_path / "small.html").write_text("<p>Moss</p>")
    large, small = (file_at(tmp_path / name, name) for name in ("large.html", "small.html"))
    with documents.Converter(lambda: False) as converter:
        converter.markdown_of(small)
        for process in multiprocessing.active_children():
            process.kill()
            process.join()
        with pytest.raises(BadRequestError, match="too much time or memory"):
            converter.markdown_of(large)

        assert converter.markdown_of(small).strip() == "Moss"
