"""Draws the main results as horizontal bars in plain SVG."""

from html import escape

from benchmarks.results import FIGURES, Figure, Run
from benchmarks.targets import OURS

SHOWN = ("drain1", "drain2", "enqueue", "steps", "latency_p50", "latency_p99")
PANEL_WIDTH = 430
BAR_HEIGHT, BAR_GAP, TITLE_HEIGHT, MARGIN = 18, 6, 34, 20
LABEL_WIDTH, BAR_WIDTH = 118, 210
INK, OURS_COLOUR, PEER_COLOUR = "#1f2933", "#c2410c", "#94a3b8"


def draw(run: Run, labels: dict[str, str]) -> str:
    """Two panels per row; every panel is scaled to its longest bar."""
    panels = [FIGURES[name] for name in SHOWN if run.peers_of(name)]
    body: list[str] = []
    y = MARGIN
    for first in range(0, len(panels), 2):
        row = panels[first : first + 2]
        for column, figure in enumerate(row):
            body += _panel(run, figure, labels, x=MARGIN + column * PANEL_WIDTH, y=y)
        y += max(_height(run, figure) for figure in row)
    width, height = 2 * PANEL_WIDTH + MARGIN, y + MARGIN
    return "\n".join(
        [
            (
                f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
                'font-family="sans-serif" font-size="12">'
            ),
            f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
            *body,
            "</svg>\n",
        ]
    )


def _height(run: Run, figure: Figure) -> int:
    return TITLE_HEIGHT + len(run.peers_of(figure.name)) * (BAR_HEIGHT + BAR_GAP) + MARGIN


def _panel(run: Run, figure: Figure, labels: dict[str, str], *, x: int, y: int) -> list[str]:
    better = "less is better" if figure.lower_is_better else "more is better"
    title = escape(f"{figure.title} ({figure.unit}, {better})")
    lines = [f'<text x="{x}" y="{y + 14}" font-weight="bold" fill="{INK}">{title}</text>']
    medians = {peer: run.median(figure.name, peer) or 0.0 for peer in run.peers_of(figure.name)}
    longest = max(medians.values()) or 1.0
    for position, (peer, value) in enumerate(medians.items()):
        top = y + TITLE_HEIGHT + position * (BAR_HEIGHT + BAR_GAP)
        length = max(1.0, BAR_WIDTH * value / longest)
        colour = OURS_COLOUR if peer == OURS else PEER_COLOUR
        text = f'fill="{INK}" y="{top + 13}"'
        lines += [
            (
                f'<text x="{x + LABEL_WIDTH - 8}" text-anchor="end" '
                f"{text}>{escape(labels[peer])}</text>"
            ),
            (
                f'<rect x="{x + LABEL_WIDTH}" y="{top}" width="{length:.1f}" '
                f'height="{BAR_HEIGHT}" fill="{colour}"/>'
            ),
            f'<text x="{x + LABEL_WIDTH + length + 6:.1f}" {text}>{figure.show(value)}</text>',
        ]
    return lines
