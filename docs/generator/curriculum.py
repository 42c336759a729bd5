"""The course: lessons/curriculum.cpp is the one list of lessons, of parts, and of what builds on what."""

import re

from .errors import PageError, read_text

TEXT = r'"(?:[^"\\]|\\.)*"'
PART = re.compile(rf"(\w+) = ({TEXT})")
ENTRY = re.compile(rf'\{{"((\d\d)_\w+)",\s*part::(\w+),\s*({TEXT}),\s*((?:{TEXT}\s*)+),\s*\{{([\d, ]*)\}}(?:,\s*{TEXT})?\}}')


class Lesson:
    def __init__(self, topic, number, part, title, needs):
        self.topic, self.number, self.part, self.title, self.needs = topic, number, part, title, needs


def curriculum(root):
    """The lessons by number, and the parts by their names in the program: "I. Attention"."""
    source = root / "lessons" / "curriculum.cpp"
    text = read_text(source, "the repository")
    parts = {name: said.strip('"') for name, said in PART.findall(text.partition("namespace part")[2].partition("}")[0])}
    lessons = {
        int(m[2]): Lesson(m[1], int(m[2]), m[3], m[4].strip('"'), [int(n) for n in re.findall(r"\d+", m[6])]) for m in ENTRY.finditer(text)
    }
    if len(lessons) != text.count("part::") or any(lesson.part not in parts for lesson in lessons.values()):
        raise PageError(f"lessons/{source.name} has {text.count('part::')} lessons, of which {len(lessons)} can be read")
    return lessons, parts


def time_and_needs(text):
    """What a lesson's page says of itself: minutes, and the numbers of the lessons that it builds on."""
    minutes = re.search(r"^About (\d+) minutes\.", text, re.MULTILINE)
    said = re.search(r"Builds on .*?(?:\.(?=\s)|;)", text, re.DOTALL)
    return int(minutes[1]) if minutes else 0, {int(number) for number in re.findall(r"\.\./(\d\d)_\w+/lesson\.md", said[0] if said else "")}
