"""Small SVG charts: lines, bars, a histogram, dots with whiskers.

Each fills the width it gets while its text keeps its size: positions are per cent of the drawing, lines are
stretched without their stroke. So one file reads well on a phone and on a wide screen, without a script.
"""
