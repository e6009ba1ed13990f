"""The launches of one program in the joint estimate: their covariance, its inverse, and what an estimate leaves.

The inverse is that of Woodbury 1950, "Inverting modified matrices": of a diagonal and what the launches of a block
share, only the latter is inverted. Residuals are those of restricted maximum likelihood, see `bench.measure.joint`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np
from scipy import sparse


@dataclasses.dataclass(kw_only=True)
class Program:
    """The launches of one program, how its effects are shared by them, and what the present estimate leaves of them.

    Launches of two programs are independent, so their covariance is that of each program alone. It is a diagonal, the
    variances across launches, and what the launches of a block share; so no matrix over two launches is made but among
    those of one cell, and the largest to be inverted is over blocks.

    Attributes:
        members_n: indices of the program's launches, block after block.
        cells_c: indices of its cells.
        of_cells: for each of its cells, the positions of its launches among `members_n`.
        block_n: the position of each launch's block among the program's blocks.
        first_b: the position of each block's first launch.
        design_En: for each launch of the program, its cell and its block among all estimates; the rest is zero.
        kernels: by kind of effect, the correlation of the effects of each two blocks.
        place_b: the position of each block's machine among all machines.
        residual_bb: the residual matrix of restricted maximum likelihood, summed over the launches of each block.
        residual_b: this matrix times the levels, likewise.
        residual_n: this product for each launch.
        diagonal_n: the diagonal of this matrix.
        score_c: for each cell, twice the derivative of the restricted log-likelihood with respect to its variance.
        information_c: twice the expected information about it.
    """

    members_n: np.ndarray
    cells_c: np.ndarray
    of_cells: Sequence[np.ndarray]
    block_n: np.ndarray
    first_b: np.ndarray
    design_En: sparse.csr_array  # noqa: N815 (the axis is of all estimates)
    kernels: Mapping[str, np.ndarray]
    place_b: np.ndarray
    residual_bb: np.ndarray = dataclasses.field(init=False)
    residual_b: np.ndarray = dataclasses.field(init=False)
    residual_n: np.ndarray = dataclasses.field(init=False)
    diagonal_n: np.ndarray = dataclasses.field(init=False)
    score_c: np.ndarray = dataclasses.field(init=False)
    information_c: np.ndarray = dataclasses.field(init=False)

    def __post_init__(self) -> None:
        self.score_c, self.information_c = np.zeros((2, len(self.cells_c)))
        self.diagonal_n = np.zeros(len(self.members_n))

    def in_blocks(self, values_nX: np.ndarray) -> np.ndarray:
        """Sums over the launches of each block."""
        return np.add.reduceat(values_nX, self.first_b, axis=0)

    def weigh(self, effect_bb: np.ndarray, variance_n: np.ndarray) -> Precision:
        """The inverse of the covariance of the launches.

        Args:
            effect_bb: covariance of the program's effects of each two blocks.
            variance_n: variance of each launch.
        """
        own_n = 1 / variance_n
        own_b = self.in_blocks(own_n)
        # Woodbury's identity: only what blocks share is to be inverted, and a block's launches are summed for it.
        shared_bb = np.linalg.solve(np.eye(len(own_b)) + effect_bb * own_b, effect_bb)
        return Precision(program=self, own_n=own_n, own_b=own_b, shared_bb=(shared_bb + shared_bb.T) / 2)

    def note_residuals(
        self,
        precision: Precision,
        weighted_nE: np.ndarray,
        estimator_En: np.ndarray,
        level_n: np.ndarray,
        estimate_E: np.ndarray,
    ) -> None:
        """Note what an estimate leaves of the levels.

        Args:
            precision: the inverse of the covariance of the program's launches.
            weighted_nE: this inverse times the design.
            estimator_En: the weights of the program's launches in the estimates.
            level_n: their levels.
            estimate_E: the estimates.
        """
        residual_n = precision.times(level_n) - weighted_nE @ estimate_E
        explained_bb = self.in_blocks(weighted_nE) @ self.in_blocks(estimator_En.T).T
        self.residual_bb = precision.of_blocks() - explained_bb
        self.residual_n, self.residual_b = residual_n, self.in_blocks(residual_n)
        for index, own_n in enumerate(self.of_cells):
            residual_nn = precision.among(own_n) - weighted_nE[own_n] @ estimator_En[:, own_n]
            self.diagonal_n[own_n] = np.diag(residual_nn)
            self.score_c[index] = (residual_n[own_n] ** 2).sum() - np.trace(residual_nn)
            self.information_c[index] = (residual_nn**2).sum()


@dataclasses.dataclass(frozen=True, kw_only=True)
class Precision:
    """The inverse of the covariance of a program's launches: a diagonal, and what is shared by blocks."""

    program: Program
    own_n: np.ndarray
    own_b: np.ndarray
    shared_bb: np.ndarray

    def times(self, values_nX: np.ndarray) -> np.ndarray:
        """The inverse times a matrix or a vector."""
        own_n = self.own_n if values_nX.ndim == 1 else self.own_n[:, None]
        weighted_nX = own_n * values_nX
        return weighted_nX - own_n * (self.shared_bb @ self.program.in_blocks(weighted_nX))[self.program.block_n]

    def of_blocks(self) -> np.ndarray:
        """The inverse, summed over the launches of each block."""
        return np.diag(self.own_b) - np.outer(self.own_b, self.own_b) * self.shared_bb

    def among(self, some_n: np.ndarray) -> np.ndarray:
        """The inverse among some launches."""
        blocks_n, own_n = self.program.block_n[some_n], self.own_n[some_n]
        return np.diag(own_n) - np.outer(own_n, own_n) * self.shared_bb[np.ix_(blocks_n, blocks_n)]
