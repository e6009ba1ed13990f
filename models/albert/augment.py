"""What training makes of a text so that the network learns the language and not the texts by heart.

Everything is drawn from a generator of our own: SentencePiece's sampling gives other segmentations in another process,
seeded or not (0.2.3).
"""

from __future__ import annotations

import math
import random
import re
from typing import Any

UNKNOWN, FIRST_PIECE = 1, 4
"""Token ids: of a character that no piece has, and of the first piece after the special ones."""
MAX_LENGTH = 300
"""In characters; more never fits into the network's 64 tokens, and longer sums could leave the range of a float."""


class Segmenter:
    """Draws segmentations of a text into pieces: one of pieces p has odds of the product of p's probabilities ** alpha.

    Source: Kudo, "Subword Regularization: Improving Neural Network Translation Models with Multiple Subword
    Candidates", ACL 2018, here over all segmentations (forward filtering, backward sampling).

    Args:
        tokenizer: a SentencePiece unigram model.
        alpha: near 0 every segmentation is as likely as any other, at 1 they are as likely as in the model.
    """

    def __init__(self, tokenizer: Any, alpha: float) -> None:
        self.tokenizer = tokenizer
        ids = range(FIRST_PIECE, tokenizer.get_piece_size())
        self.pieces = {
            tokenizer.id_to_piece(number): (number, math.exp(alpha * tokenizer.get_score(number))) for number in ids
        }
        self.longest = max(map(len, self.pieces))
        self.unknown_odds = min(odds for _, odds in self.pieces.values())

    def normalize(self, text: str) -> str:
        """The text as the tokenizer sees it: what its pieces are put together."""
        return "".join(self.tokenizer.encode(text, out_type=str))

    def all_pieces(self, text: str) -> list[int]:
        """Token ids of every piece that occurs anywhere in a text, as often as it does, though they overlap."""
        text = self.normalize(text)
        lengths = range(1, self.longest + 1)
        parts = (text[start : start + length] for length in lengths for start in range(len(text) - length + 1))
        return [self.pieces[part][0] for part in parts if part in self.pieces]

    def draw(self, text: str, generator: random.Random) -> list[int]:
        """Token ids of a text, without special ones."""
        text = self.normalize(text)[:MAX_LENGTH]
        odds_from = [0.0] * len(text) + [1.0]  # at each place, the summed odds of all segmentations of the rest
        choices: list[list[tuple[float, int, int]]] = [[] for _ in text]
        for start in reversed(range(len(text))):
            for end in range(start + 1, min(start + self.longest, len(text)) + 1):
                piece = self.pieces.get(text[start:end])
                if piece is not None:
                    odds_from[start] += piece[1] * odds_from[end]
                    choices[start].append((odds_from[start], piece[0], end))
            if not choices[start]:
                odds_from[start] = self.unknown_odds * odds_from[start + 1]
                choices[start].append((odds_from[start], UNKNOWN, start + 1))
        tokens, at = [], 0
        while at < len(text):
            drawn = generator.random() * odds_from[at]
            _, token, at = next((choice for choice in choices[at] if drawn < choice[0]), choices[at][-1])
            tokens.append(token)
        return tokens


class TextMixer:
    """Makes new texts of a language from the texts that it is given.

    Args:
        texts: by label.
    """

    def __init__(self, texts: list[list[str]]) -> None:
        self.texts = texts
        self.words = [[word for text in same for word in text.split()] for same in texts]

    def draw(self, text: str, label: int, generator: random.Random) -> str:
        """A text of the same language as a text."""
        words = text.split()
        kind = generator.random()
        if kind < 0.15:  # words of the language, in no order
            words = generator.choices(self.words[label], k=generator.randint(2, 8))
        elif kind < 0.3:  # the beginning of this text and the end of another
            other = generator.choice(self.texts[label]).split()
            words = words[: generator.randint(1, len(words))] + other[generator.randrange(len(other)) :]
        if len(words) > 2 and generator.random() < 0.4:  # a part
            length = generator.randint(2, len(words))
            start = generator.randint(0, len(words) - length)
            words = words[start : start + length]
        text = " ".join(words)
        if generator.random() < 0.25:  # no punctuation
            text = re.sub(r"[^\w\s]", " ", text)
        if generator.random() < 0.2:
            text = generator.choice((str.upper, str.lower, str.title))(text)
        return text
