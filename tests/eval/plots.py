"""The results as SVG plots: bars by program, one file for each quantity. No library: an SVG is text."""

from html import escape

ROW, BAR, LEFT, WIDTH, TOP, BOTTOM, RIGHT = 34, 12, 230, 480, 64, 30, 60
COLOURS = ["#3b6ea5", "#d9822b", "#5a9e6f", "#a0a0a0"]


def bars(path, title, series, rows, most=None, unit="", line=None):
    """Writes bars: `rows` are (name, values), one value or None for each of `series`. `line` marks a bound."""
    known = [value for _, values in rows for value in values if value is not None]
    most = most or max([*known, line or 0, 1e-9]) * 1.05
    row = max(ROW, BAR * len(series) + 10)
    height = TOP + row * len(rows) + BOTTOM
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{LEFT + WIDTH + RIGHT}" height="{height}" '
           'font-family="sans-serif" font-size="12">',
           '<rect width="100%" height="100%" fill="white"/>',
           text(LEFT, 20, title, size=15, weight="bold")]
    at = LEFT
    for colour, name in zip(COLOURS, series):
        out += [f'<rect x="{at}" y="32" width="10" height="10" fill="{colour}"/>', text(at + 14, 41, name)]
        at += 34 + 7 * len(name)
    for part in range(5):
        x = LEFT + WIDTH * part / 4
        out += [f'<line x1="{x:.1f}" y1="{TOP - 8}" x2="{x:.1f}" y2="{height - BOTTOM}" stroke="#dddddd"/>',
                text(x, height - BOTTOM + 16, f"{most * part / 4:.3g}{unit}", anchor="middle")]
    for number, (name, values) in enumerate(rows):
        y = TOP + row * number
        out.append(text(LEFT - 8, y + BAR, name, anchor="end"))
        for n, (colour, value) in enumerate(zip(COLOURS, values)):
            if value is None:
                out.append(text(LEFT + 4, y + BAR * n + 10, "not known", fill="#888888", size=10))
                continue
            length = WIDTH * min(value / most, 1)
            out += [f'<rect x="{LEFT}" y="{y + BAR * n}" width="{length:.1f}" height="{BAR - 2}" fill="{colour}"/>',
                    text(LEFT + length + 4, y + BAR * n + 9, f"{value:.3g}{unit}", size=10)]
    if line is not None:
        x = LEFT + WIDTH * line / most
        out.append(f'<line x1="{x:.1f}" y1="{TOP - 8}" x2="{x:.1f}" y2="{height - BOTTOM}" stroke="#c03030" '
                   'stroke-dasharray="4 3"/>')
    path.write_text("\n".join([*out, "</svg>", ""]))


def text(x, y, words, anchor="start", size=12, weight="normal", fill="#222222"):
    return (f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" font-weight="{weight}" '
            f'fill="{fill}">{escape(str(words))}</text>')
