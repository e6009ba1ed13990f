"""The launches of one program in the joint estimate: their covariance, its inverse, and what an estimate leaves.

The inverse is that of Woodbury 1950, "Inverting modified matrices": of a diagonal and what the launches of a block
share, only the latter is inverted. Residuals are those of restricted maximum likelihood, see `bench.measure.joint`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np
from scipy import sparse

from bench.measure import variances
from bench.measure.variances import Evidence

SHOCK = "shock"
"""The kind of effect of which each block has a variance of its own: its kernel is a diagonal."""


@dataclasses.dataclass(kw_only=True)
class Program:
    """The launches of one program, how its effects are shared by them, and what the present estimate leaves of them.

    Launches of two programs are independent, so their covariance is that of each program alone. It is a diagonal, the
    variances across launches, and what the launches of a block share; so no matrix over two launches is made but among
    those of one cell, and the largest to be inverted is over blocks.

    Attributes:
        members_n: indices of the program's launches, block after block.
        cells_c: indices of its cells.
        of_cells: cells that have equally many launches, and the positions of these among `members_n`, a row for each.
        block_n: the position of each launch's block among the program's blocks.
        first_b: the position of each block's first launch.
        estimates_e: the estimates, of all programs', that its launches have a part in: cells and blocks.
        design_en, design_ne: for each launch, its cell and its block among these.
        kernels: by kind of effect, the correlation of the effects of each two blocks.
        machine_b: the position of each block's machine among all machines.
        residual_bb: the residual matrix of restricted maximum likelihood, summed over the launches of each block.
        residual_b: this matrix times the levels, likewise.
        residual_n: this product for each launch.
        diagonal_n: the diagonal of this matrix.
        score_c: for each cell, twice the derivative of the restricted log-likelihood with respect to its variance.
        information_c: twice the expected information about it.
        curvature_c: twice the observed information about it.
    """

    members_n: np.ndarray
    cells_c: np.ndarray
    of_cells: Sequence[tuple[np.ndarray, np.ndarray]]
    block_n: np.ndarray
    first_b: np.ndarray
    estimates_e: np.ndarray
    design_en: sparse.csr_array
    kernels: Mapping[str, np.ndarray]
    machine_b: np.ndarray
    residual_bb: np.ndarray = dataclasses.field(init=False)
    residual_b: np.ndarray = dataclasses.field(init=False)
    residual_n: np.ndarray = dataclasses.field(init=False)
    diagonal_n: np.ndarray = dataclasses.field(init=False)
    score_c: np.ndarray = dataclasses.field(init=False)
    information_c: np.ndarray = dataclasses.field(init=False)
    curvature_c: np.ndarray = dataclasses.field(init=False)
    design_ne: np.ndarray = dataclasses.field(init=False)

    def __post_init__(self) -> None:
        self.score_c, self.information_c, self.curvature_c = np.zeros((3, len(self.cells_c)))
        self.diagonal_n = np.zeros(len(self.members_n))
        self.design_ne = self.design_en.toarray().T

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
        weighted_ne: np.ndarray,
        covariance_ee: np.ndarray,
        level_n: np.ndarray,
        estimate_e: np.ndarray,
    ) -> None:
        """Note what an estimate leaves of the levels.

        Args:
            precision: the inverse of the covariance of the program's launches.
            weighted_ne: this inverse times the design.
            covariance_ee: covariance of the estimates that the launches have a part in.
            level_n: their levels.
            estimate_e: these estimates.
        """
        residual_n = precision.times(level_n) - weighted_ne @ estimate_e
        weighted_be, projected_ne = self.in_blocks(weighted_ne), weighted_ne @ covariance_ee
        self.residual_bb = precision.of_blocks() - weighted_be @ self.in_blocks(projected_ne).T
        self.residual_n, self.residual_b = residual_n, self.in_blocks(residual_n)
        for own_g, own_gk in self.of_cells:
            residual_gkk = precision.among(own_gk) - weighted_ne[own_gk] @ projected_ne[own_gk].transpose(0, 2, 1)
            self.diagonal_n[own_gk] = diagonal_gk = np.diagonal(residual_gkk, axis1=1, axis2=2)
            square_g = (residual_gkk**2).sum(axis=(1, 2))
            own_residual_gk = residual_n[own_gk]
            form_g = (own_residual_gk * (residual_gkk @ own_residual_gk[:, :, None])[:, :, 0]).sum(axis=1)
            self.score_c[own_g] = (own_residual_gk**2 - diagonal_gk).sum(axis=1)
            self.information_c[own_g], self.curvature_c[own_g] = square_g, 2 * form_g - square_g

    def evidence(self, kind: str, variance: float) -> Evidence:
        """What the residuals tell of the variance of one kind of effect.

        Args:
            kind: the kind.
            variance: the present estimate.
        """
        kernel_bb, residual_bb = self.kernels[kind], self.residual_bb
        product_bb = residual_bb * np.diag(kernel_bb) if kind == SHOCK else residual_bb @ kernel_bb
        return variances.evidence(
            variance,
            score=float(self.residual_b @ kernel_bb @ self.residual_b - np.trace(product_bb)),
            information=float((product_bb * product_bb.T).sum()),
        )

    def weigh_shocks(self, variance: float, tail: float) -> None:
        """Give each shock a variance of its own, as its size tells: the scale mixture of normals that is Student's t.

        Args:
            variance: that of shocks.
            tail: degrees of freedom of Student's t.
        """
        kernel_bb = self.kernels[SHOCK]
        own_b = variance * np.diag(kernel_bb)
        left_b = np.maximum(own_b - own_b**2 * np.diag(self.residual_bb), 0.0)
        weight_b = (tail + 1) / (tail + ((own_b * self.residual_b) ** 2 + left_b) / variance)
        # Half way, as for variances: a shock that is given room explains more, and would be given too much.
        np.fill_diagonal(kernel_bb, np.sqrt(np.diag(kernel_bb) / weight_b))


def by_count(cell_n: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    """The cells that have the same number of launches, and the positions of these, of shape (cells, launches)."""
    counts_c, order_n = np.bincount(cell_n), np.argsort(cell_n, kind="stable")
    first_c = np.cumsum(counts_c) - counts_c
    grouped = [(np.flatnonzero(counts_c == count), np.arange(count)) for count in np.unique(counts_c)]
    return [(cells_g, order_n[first_c[cells_g, None] + number_k]) for cells_g, number_k in grouped]


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

    def among(self, some_gk: np.ndarray) -> np.ndarray:
        """The inverse among some launches: of each row of launches, those of this row."""
        blocks_gk, own_gk = self.program.block_n[some_gk], self.own_n[some_gk]
        shared_gkk = self.shared_bb[blocks_gk[:, :, None], blocks_gk[:, None, :]]
        return own_gk[:, :, None] * (np.eye(own_gk.shape[1]) - own_gk[:, None, :] * shared_gkk)
