"""Floor 7: the lectures as runnable examples. Each worked number of a slide is computed by the functions that the
toolkit itself runs, and compared with what the slide says.

    lesson.py     what a lesson is, and what running it gives       topics/    the lessons
    recorder.py      where a lesson notes its numbers and pictures     source.py  the code that a lesson shows
    catalog.py    all lessons by name                             page.py    results as one self-contained page
    running.py    one lesson, or all                              inputs.py  what the reader of a lesson can change

Nothing heavy is imported before a lesson runs.
"""
