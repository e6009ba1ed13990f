"""How near an image is to the original: PSNR and SSIM, in numpy alone, the same for every runtime."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

PEAK = 255.0


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

    x_HW, y_HW = image_HW.astype(np.float64), original_HW.astype(np.float64)
    c1, c2 = (0.01 * PEAK) ** 2, (0.03 * PEAK) ** 2
    mean_x, mean_y = _windowed_mean(x_HW), _windowed_mean(y_HW)
    var_x = _windowed_mean(x_HW * x_HW) - mean_x**2
    var_y = _windowed_mean(y_HW * y_HW) - mean_y**2
    covariance = _windowed_mean(x_HW * y_HW) - mean_x * mean_y
    luminance = (2 * mean_x * mean_y + c1) / (mean_x**2 + mean_y**2 + c1)
    contrast_structure = (2 * covariance + c2) / (var_x + var_y + c2)
    return float(np.mean(luminance * contrast_structure))


def _windowed_mean(image_HW: np.ndarray) -> np.ndarray:
    """Gaussian-weighted means over 11x11 windows: (H, W) -> (H - 10, W - 10)."""
    import numpy as np

    radius, sigma = 5, 1.5
    weights = np.exp(-0.5 * (np.arange(-radius, radius + 1) / sigma) ** 2)
    weights /= weights.sum()
    # The window is separable: one pass down the columns, one along the rows.
    rows = image_HW.shape[0] - 2 * radius
    down = sum(weight * image_HW[at : at + rows] for at, weight in enumerate(weights))
    columns = image_HW.shape[1] - 2 * radius
    return np.asarray(sum(weight * down[:, at : at + columns] for at, weight in enumerate(weights)))
