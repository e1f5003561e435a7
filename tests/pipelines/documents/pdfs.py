"""PDFs written byte by byte: valid ones, and ones that a parser refuses, or hangs or crashes on."""

from __future__ import annotations

import zlib


def pdf(objects: dict[int, bytes], trailer: bytes = b"") -> bytes:
    """The objects, their table and the trailer; object 1 is the catalogue."""
    out = bytearray(b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n")
    places: dict[int, int] = {}
    for number, body in objects.items():
        places[number] = len(out)
        out += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    table = len(out)
    size = max(objects) + 1
    out += b"xref\n0 %d\n0000000000 65535 f \n" % size
    for number in range(1, size):
        out += b"%010d 00000 n \n" % places[number]
    out += b"trailer\n<< /Size %d /Root 1 0 R %s >>\nstartxref\n%d\n%%%%EOF\n" % (
        size,
        trailer,
        table,
    )
    return bytes(out)


def stream(content: bytes, entries: bytes = b"") -> bytes:
    return b"<< /Length %d %s >>\nstream\n%s\nendstream" % (len(content), entries, content)


def _page(
    content: bytes, more: dict[int, bytes] | None = None, resources: bytes = b""
) -> dict[int, bytes]:
    return {
        1: b"<< /Type /Catalog /Pages 2 0 R >>",
        2: b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        3: b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 4 0 R "
        b"/Resources << /Font << /F1 5 0 R >> %s >> >>" % resources,
        4: content,
        5: b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>",
        **(more or {}),
    }


def text_pdf(text: str, *, pages: int = 1) -> bytes:
    kids = b" ".join(b"%d 0 R" % (10 + 2 * page) for page in range(pages))
    objects = {
        1: b"<< /Type /Catalog /Pages 2 0 R >>",
        2: b"<< /Type /Pages /Kids [%s] /Count %d >>" % (kids, pages),
        5: b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>",
    }
    filler = dict.fromkeys((3, 4, 6, 7, 8, 9), b"null")
    for page in range(pages):
        number = 10 + 2 * page
        objects[number] = (
            b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents %d 0 R "
            b"/Resources << /Font << /F1 5 0 R >> >> >>"
        ) % (number + 1)
        objects[number + 1] = stream(_shown(text if page == 0 else f"Page {page + 1}. {text}"))
    return pdf({**filler, **objects})


def _shown(text: str) -> bytes:
    lines = [text[start : start + 80] for start in range(0, len(text), 80)] or [""]
    escaped = [
        line.encode("cp1252", "replace")
        .replace(b"\\", b"\\\\")
        .replace(b"(", b"\\(")
        .replace(b")", b"\\)")
        for line in lines
    ]
    return (
        b"BT /F1 12 Tf 14 TL 72 720 Td "
        + b" T* ".join(b"(%s) Tj" % line for line in escaped)
        + b" ET"
    )


def encrypted_pdf(text: str = "a secret contract") -> bytes:
    """An encrypted PDF whose check values fit no known password."""
    objects = _page(
        stream(_shown(text)),
        {6: b"<< /Filter /Standard /V 1 /R 2 /P -4 /O <%s> /U <%s> >>" % (b"4f" * 32, b"55" * 32)},
    )
    return pdf(objects, b"/Encrypt 6 0 R /ID [<%s> <%s>]" % (b"ab" * 16, b"ab" * 16))


def corrupt_pdf(number: int = 0) -> bytes:
    return b"%PDF-1.7\n" + bytes((number * 31 + position * 7) % 251 for position in range(4_000))


def scanned_pdf() -> bytes:
    """One page with a picture and without text."""
    image = (
        b"/Type /XObject /Subtype /Image /Width 8 /Height 8 /ColorSpace /DeviceGray "
        b"/BitsPerComponent 8"
    )
    return pdf(
        _page(
            stream(b"q 500 0 0 500 50 50 cm /Im1 Do Q"),
            {6: stream(bytes(range(64)), image)},
            b"/XObject << /Im1 6 0 R >>",
        )
    )


def pageless_pdf() -> bytes:
    return pdf(
        {1: b"<< /Type /Catalog /Pages 2 0 R >>", 2: b"<< /Type /Pages /Kids [] /Count 0 >>"}
    )


def memory_bomb_pdf() -> bytes:
    """A few kilobytes that expand to a gibibyte of content."""
    piece, count = bytes(1024 * 1024), 1024
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    packed = packer.compress(piece) + packer.flush(zlib.Z_FULL_FLUSH)  # may be repeated as it is
    checksum = (len(piece) * count % 65_521) << 16 | 1  # of so many zeros
    once = b"\x78\x9c" + packed * count + b"\x03\x00" + checksum.to_bytes(4, "big")
    return pdf(_page(stream(zlib.compress(once, 9), b"/Filter [/FlateDecode /FlateDecode]")))


def endless_pdf(levels: int = 9, fan: int = 10) -> bytes:
    """Each form shows the next one ten times, so that its text is exponentially long."""
    forms: dict[int, bytes] = {}
    for level in range(levels):
        last = level == levels - 1
        shown = _shown("again") if last else b"/Fx Do " * fan
        inner = b"/Font << /F1 5 0 R >>" if last else b"/XObject << /Fx %d 0 R >>" % (7 + level)
        forms[6 + level] = stream(
            shown, b"/Type /XObject /Subtype /Form /BBox [0 0 612 792] /Resources << %s >>" % inner
        )
    return pdf(_page(stream(b"/Fx Do"), forms, b"/XObject << /Fx 6 0 R >>"))


def segfault_pdf(depth: int = 80_000) -> bytes:
    """A deeply nested colour space: the parser's recursion overflows its stack."""
    nested = 40  # in one object; more than 64 the parser would refuse
    count = depth // nested
    spaces = {
        6 + one: b"[/Pattern" * nested + b" %d 0 R" % (7 + one) + b"]" * nested
        for one in range(count)
    }
    content = stream(b"/Deep cs " + _shown("a contract"))
    return pdf(
        _page(content, {**spaces, 6 + count: b"/DeviceGray"}, b"/ColorSpace << /Deep 6 0 R >>")
    )
