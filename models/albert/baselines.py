"""What linear models reach on the test split of the interface strings: `python models/albert/baselines.py`.

Needs `pip install 'inferometer[train]'`.
"""

from __future__ import annotations

import collections
from typing import Any

from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.metrics import f1_score
from sklearn.svm import LinearSVC

from bench.plugins import catalog

FEATURES: dict[str, dict[str, Any]] = {
    "words": {"analyzer": "word", "ngram_range": (1, 1)},
    "1 to 5 characters": {"analyzer": "char_wb", "ngram_range": (1, 5)},
}
"""By name, the n-grams whose tf-idf is taken: of each kind the best on a part of the training split."""


def main() -> None:
    """Print the figures of the most frequent language and of each kind of n-grams."""
    data: Any = catalog.task("albert").strings()  # type: ignore[attr-defined]
    splits = {split: data.load(split) for split in ("train", "test")}
    texts = {split: [string.text for string in strings] for split, strings in splits.items()}
    languages = {split: [string.language for string in strings] for split, strings in splits.items()}
    most_frequent = collections.Counter(languages["train"]).most_common(1)[0][0]
    print_figures("the most frequent language", languages["test"], [most_frequent] * len(languages["test"]))
    for name, options in FEATURES.items():
        vectorizer = TfidfVectorizer(sublinear_tf=True, **options)
        classifier = LinearSVC(C=0.3, random_state=0)
        classifier.fit(vectorizer.fit_transform(texts["train"]), languages["train"])
        print_figures(name, languages["test"], classifier.predict(vectorizer.transform(texts["test"])))


def print_figures(name: str, expected: list[str], answers: Any) -> None:
    """Accuracy and macro-F1 of some answers."""
    right = sum(answer == language for answer, language in zip(answers, expected, strict=True))
    print(f"{name}: accuracy {right / len(expected):.4f}, macro-F1 {f1_score(expected, answers, average='macro'):.4f}")


if __name__ == "__main__":
    main()
