"""Floor 7: the lectures as runnable examples. Each worked number of a slide is computed by the functions that the
toolkit itself runs, and compared with what the slide says.

    lesson.py     what a lesson is, and its source code            topics/    the lessons
    recorder.py   where a lesson notes its numbers and pictures    page.py    results as one self-contained page
    catalog.py    all lessons by name                              inputs.py  what the reader of a lesson can change
    running.py    one lesson, or all

Nothing heavy is imported before a lesson runs.
"""
