"""How near an image is to the original: PSNR and SSIM, in numpy alone, the same for every runtime."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

PEAK = 255.0
RADIUS, SIGMA = 5, 1.5
"""Of the window of SSIM, in pixels."""
BAND = 32
"""Rows of an image whose similarity is found at a time: the arrays of a band fit a processor's cache."""


def psnr_db(image_HW: np.ndarray, original_HW: np.ndarray) -> float:
    """Peak signal-to-noise ratio of two images on the scale 0 to 255, in dB; infinite when they are equal."""
    import numpy as np

    mse = float(np.mean((image_HW.astype(np.float64) - original_HW.astype(np.float64)) ** 2))
    return math.inf if mse == 0 else 10 * math.log10(PEAK**2 / mse)


def ssim(image_HW: np.ndarray, original_HW: np.ndarray) -> float:
    """Mean structural similarity of two images on the scale 0 to 255; 1 when they are equal.

    Args:
        image_HW: H by W pixels, at least 11 each way.
        original_HW: the same size.

    Source: Wang, Bovik, Sheikh, Simoncelli, "Image quality assessment: from error visibility to structural
    similarity", IEEE Transactions on Image Processing 13(4), 2004: an 11x11 Gaussian window of standard deviation 1.5
    pixels, K1 = 0.01, K2 = 0.03, averaged over the places where the whole window fits.
    """
    import numpy as np

    rows = image_HW.shape[0] - 2 * RADIUS
    total = 0.0
    for top in range(0, rows, BAND):
        of_band = slice(top, min(rows, top + BAND) + 2 * RADIUS)
        total += _sum_of_similarities(image_HW[of_band].astype(np.float64), original_HW[of_band].astype(np.float64))
    return total / (rows * (image_HW.shape[1] - 2 * RADIUS))


def _sum_of_similarities(x_HW: np.ndarray, y_HW: np.ndarray) -> float:
    """The structural similarity of two float64 images, summed over the places where the whole window fits."""
    c1, c2 = (0.01 * PEAK) ** 2, (0.03 * PEAK) ** 2
    mean_x, mean_y = _windowed_mean(x_HW), _windowed_mean(y_HW)
    product, squares = mean_x * mean_y, mean_x**2 + mean_y**2
    variances = _windowed_mean(x_HW * x_HW + y_HW * y_HW) - squares
    covariance = _windowed_mean(x_HW * y_HW) - product
    similarity = (2 * product + c1) / (squares + c1) * (2 * covariance + c2) / (variances + c2)
    return float(similarity.sum())


def _windowed_mean(image_HW: np.ndarray) -> np.ndarray:
    """Gaussian-weighted means over 11x11 windows: (H, W) -> (H - 10, W - 10)."""
    import numpy as np

    weights = np.exp(-0.5 * (np.arange(-RADIUS, RADIUS + 1) / SIGMA) ** 2)
    weights /= weights.sum()
    # The window is separable: one pass down the columns, one along the rows.
    return _weighted(_weighted(image_HW, weights).T, weights).T


def _weighted(image_HW: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Sums down the columns with symmetric weights, one product for each pair of rows that have the same one."""
    import numpy as np

    rows = image_HW.shape[0] - 2 * RADIUS
    found = weights[RADIUS] * image_HW[RADIUS : RADIUS + rows]
    pair = np.empty_like(found)
    for at, weight in enumerate(weights[:RADIUS]):
        last = 2 * RADIUS - at
        np.add(image_HW[at : at + rows], image_HW[last : last + rows], out=pair)
        pair *= weight
        found += pair
    return found
