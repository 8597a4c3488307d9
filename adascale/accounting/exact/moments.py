r"""Moments of one round's privacy loss at complex order, by a trapezoidal rule with a proven error (:ref:`app-exact`).

:math:`M(z) = \mathbb E[(1 - q + q e^L)^z]`, :math:`L = \sqrt u\, x - u / 2`, :math:`x \sim \mathcal N(0, 1)`,
:math:`u = 1/\sigma^2`; errors are relative to :math:`M(c)`, :math:`c = \mathrm{Re}\, z > 1` or < 0.
"""

import math

import numpy as np
from numpy.typing import NDArray

from adascale.accounting.kernels import FloatArray
from adascale.compiled import njit

ComplexArray = NDArray[np.complex128]

MOST_NODES = 200_000.0  # for one round; a round that needs more is not certified
MOST_WORK = 1e9  # nodes times points on the line, over all rounds of a call: a second or two
ULP = 2.0**-52  # elementary functions are assumed accurate to two of these, four times the documented error
_DEPTH = 42.0  # logarithms below the peak down to which the integrand is summed: exp(-42) = 6e-19
_STEPS = 400  # of an iteration towards a peak, or a descent from it
_WORTH_IT = 3e4  # nodes times points above which it pays to search for a larger step
_ROOT = math.sqrt(2 * math.pi)
_TOGETHER = 64  # terms in each block of a sum


@njit(cache=True, nogil=True)
def log_ratio(x: float, root: float, q: float) -> tuple[float, float]:
    """Compute y = ln(1 - q + q e^L) to full relative precision, and its slope in L."""
    loss = root * (x - 0.5 * root)
    if loss > 30.0 and loss > -math.log(q):
        rest = (1.0 - q) / q * math.exp(-loss)
        return loss + math.log(q) + math.log1p(rest), 1.0 / (1.0 + rest)
    w = q * math.expm1(loss)
    upper = q * math.exp(loss)
    if w > -0.5:
        return math.log1p(w), upper / (1.0 + w)
    base = (1.0 - q) + upper
    return math.log(base), upper / base


@njit(cache=True, nogil=True)
def _off(x: float, y: float, slope: float, root: float) -> float:
    """Bound the error of y(x), in units in the last place."""
    return 8 * abs(y) + 4 * slope * root * (2 * abs(x) + root)


@njit(cache=True, nogil=True)
def _log_integrand(x: float, root: float, q: float, c: float) -> float:
    return c * log_ratio(x, root, q)[0] - 0.5 * x * x


@njit(cache=True, nogil=True)
def _peak(start: float, root: float, q: float, c: float) -> float:
    """Solve x = c sqrt(u) r(x): for c > 0 the first solution from ``start`` on, else the only one; NaN on failure."""
    if c < 0.0:  # the right side decreases
        low, high = c * root, 0.0
        for _ in range(80):
            x = 0.5 * (low + high)
            if c * root * log_ratio(x, root, q)[1] > x:
                low = x
            else:
                high = x
        return high
    x = start
    for _ in range(_STEPS):  # the right side increases, so no step passes a solution
        after = c * root * log_ratio(x, root, q)[1]
        if abs(after - x) < 1e-3:
            return after
        x = after
    return math.nan


@njit(cache=True, nogil=True)
def _walk(x: float, step: float, level: float, root: float, q: float, c: float) -> float:
    for _ in range(_STEPS):
        x += step
        if _log_integrand(x, root, q, c) < level:
            break
        step *= 1.15
    return x


@njit(cache=True, nogil=True)
def _windows(root: float, q: float, c: float) -> tuple[float, float, float, float, float]:
    """Find two intervals (the second may be empty) outside which the integrand is below exp(-42) of its peak."""
    one = _peak(0.0, root, q, c)
    two = _peak(c * root, root, q, c) if c > 0.0 else one
    f_one, f_two = _log_integrand(one, root, q, c), _log_integrand(two, root, q, c)
    level = max(f_one, f_two) - _DEPTH
    peak = level + _DEPTH
    if two - one < 1.0 or f_one < level:
        low = _walk(two if f_one < level else one, -0.5, level, root, q, c)
        return low, _walk(two, 0.5, level, root, q, c), 0.0, -1.0, peak
    low, middle = _walk(one, -0.5, level, root, q, c), _walk(one, 0.5, level, root, q, c)
    if f_two < level:
        return low, middle, 0.0, -1.0, peak
    again, high = _walk(two, -0.5, level, root, q, c), _walk(two, 0.5, level, root, q, c)
    if again <= middle:
        return low, high, 0.0, -1.0, peak
    return low, middle, again, high, peak


@njit(cache=True, nogil=True)
def _step(root: float, c: float, top: float, digits: float) -> float:
    """Find the largest step with strip bound 2 e^{...} / (e^{2 pi d / step} - 1) <= exp(-digits)."""
    best = 0.0
    widest = min(math.pi / root * (0.999 if c > 0.0 else 0.9), 40.0)
    for i in range(24):
        d = widest * 0.8**i
        exponent = digits + 0.7 + 0.5 * d * d + top * root * d
        if c < 0.0:
            exponent += c * math.log(math.cos(0.5 * root * d))
        best = max(best, 2 * math.pi * d / exponent)
    return best


@njit(cache=True, nogil=True)
def _left_out(root: float, c: float, dx: float, nodes: float, total: float) -> float:
    """Bound the sum of the nodes below exp(-42) of the peak, relative to ``total``, the sum of the others."""
    return math.exp(-_DEPTH) * ((abs(c) * root + 60.0) / dx + nodes) * dx / _ROOT / total


@njit(cache=True, nogil=True)
def log_moment_at(root: float, q: float, c: float, peak: float, digits: float = 24.0) -> tuple[float, float]:
    """Compute ln M(c) less its peak, to exp(-digits), and its total error relative to M(c)."""
    low, high, again, end, _ = _windows(root, q, c)
    dx = _step(root, c, 0.0, digits)
    if not (max(high - low, 0.0) + max(end - again, 0.0)) / dx < MOST_NODES:
        return math.inf, math.inf
    total, rounding = 0.0, 0.0
    one = int((high - low) / dx) + 2
    first = max(math.ceil((again - low) / dx), one)  # no node twice
    size = one + (int((end - again) / dx) + 2 if end > again else 0)
    for i in range(size):
        x = low + (i if i < one else first + i - one) * dx
        y, slope = log_ratio(x, root, q)
        weight = math.exp(c * y - 0.5 * x * x - peak)
        total += weight
        rounding += weight * (abs(c) * _off(x, y, slope, root) + 3 * x * x + 2 * abs(peak))
    if not total > 0.0:  # cancellation in the exponent exceeds the total
        return math.inf, math.inf
    left_out = _left_out(root, c, dx, size, total * dx / _ROOT)
    off = math.exp(-digits) + left_out + ULP * (rounding / total + size + 8.0)
    return math.log(total * dx / _ROOT), off


@njit(cache=True, nogil=True)
def log_moment(u: float, q: float, c: float, digits: float = 24.0) -> float:
    """Compute ln M(c) at real order, to exp(-digits) and rounding; return inf where it is too much work."""
    root = math.sqrt(u)
    peak = _windows(root, q, c)[4]
    return log_moment_at(root, q, c, peak, digits)[0] + peak


@njit(cache=True, nogil=True)
def log_moment_above(u: float, q: float, c: float, digits: float = 24.0) -> float:
    """Bound ln M(c) from above, rounding included; return inf where M(c) is not known to within four per cent."""
    root = math.sqrt(u)
    peak = _windows(root, q, c)[4]
    value, off = log_moment_at(root, q, c, peak, digits)
    if not off < 0.04:
        return math.inf
    return value + peak + 1.05 * off + 4 * ULP * (abs(value) + abs(peak))


@njit(cache=True, nogil=True)
def _edge(d: float, root: float, q: float, c: float, top: float, peak: float) -> float:
    """Bound the integral of |1 - q + q e^L|^c e^{top arg} phi on the edge Im x = d from above, divided by e^peak."""
    angle = root * d
    sine, cosine = math.sin(angle), math.cos(angle)
    x = min(-12.0, c * root - 12.0)
    far = max(c * root, 0.0) + 2.0
    total, width = 0.0, 1.0  # the first cell covers everything to its left, where every factor increases
    y, share = log_ratio(x, root, q)
    for _ in range(20_000):
        after = x + width
        y_after, share = log_ratio(after, root, q)
        # both y and the angle of 1 - q + q e^{L + i angle} increase with x
        turned = math.atan2(share * sine, 1.0 - share + share * cosine)
        nearest = 0.0 if x < 0.0 < after else min(x * x, after * after)
        term = (c * y_after if c > 0.0 else c * y) - peak - 0.5 * nearest + top * turned
        if term > 700.0:
            break
        total += width * math.exp(term)
        if after > far and term + top * (angle - turned) < -60.0:
            if c < 0.0:
                if c * math.log(math.cos(0.5 * angle)) > 700.0:
                    break
                total *= math.cos(0.5 * angle) ** c
            return total + 1e-20
        x, y = after, y_after
        width = max(0.1, 0.05 * abs(x))
    return math.inf


@njit(cache=True, nogil=True)
def _better_step(root: float, q: float, c: float, top: float, digits: float, peak: float, dx: float) -> float:
    found, off = log_moment_at(root, q, c, peak)
    if not off < 0.003:  # less than 0.7 - ln 2
        return dx
    for i in range(40):
        d = min(8.0, 0.95 * math.pi / root) * 0.7**i
        if 2 * math.pi * d / digits < dx:
            break
        edge = _edge(d, root, q, c, top, peak)
        if edge < math.inf:
            exponent = digits + 0.7 + 0.5 * d * d + math.log(edge / _ROOT) - found
            dx = max(dx, 2 * math.pi * d / max(exponent, 1.0))
    return min(dx, 1.0)


@njit(cache=True, nogil=True)
def total_log_moment(u: FloatArray, q: FloatArray, number: FloatArray, c: float, digits: float) -> float:
    """Compute ln M(c) of all rounds together."""
    total = 0.0
    for t in range(u.size):
        total += number[t] * log_moment(u[t], q[t], c, digits)
    return total


@njit(cache=True, nogil=True)
def total_log_moment_above(u: FloatArray, q: float, number: FloatArray, c: float) -> float:
    """Bound ln M(c) of all rounds together from above."""
    total, size = 0.0, 0.0
    for t in range(u.size):
        each = number[t] * log_moment_above(u[t], q, c)
        total += each
        size += abs(each)
    return total + ULP * (u.size + 4.0) * size


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract", "nsz"})
def turn(re: FloatArray, im: FloatArray, cos: FloatArray, sin: FloatArray) -> tuple[float, float]:
    """Return the sums of the real and imaginary parts, and turn the terms to the next power in place."""
    a, b = 0.0, 0.0
    for i in range(re.size):
        x, y = re[i], im[i]
        a += x
        b += y
        re[i] = x * cos[i] - y * sin[i]
        im[i] = x * sin[i] + y * cos[i]
    return a, b


@njit(cache=True, nogil=True)
def turn_in_blocks(re: FloatArray, im: FloatArray, cos: FloatArray, sin: FloatArray) -> tuple[float, float]:
    """Compute :func:`turn` in blocks; the sums lose at most :func:`lost`."""
    a, b = 0.0, 0.0
    for i in range(0, re.size, _TOGETHER):
        j = i + _TOGETHER
        x, y = turn(re[i:j], im[i:j], cos[i:j], sin[i:j])
        a += x
        b += y
    return a, b


@njit(cache=True, nogil=True)
def lost(size: int) -> float:
    """Bound the loss of a sum in blocks, in units in the last place of the sum of the moduli."""
    return min(size, _TOGETHER) + size / _TOGETHER + 2.0


@njit(cache=True, nogil=True)
def line(
    u: FloatArray, q: float, c: float, h: float, count: int
) -> tuple[ComplexArray, FloatArray, FloatArray, FloatArray]:
    """Return M(c + i k h) exp(-scale), k < count, for every u, the scales, and a, b of its error a + k b over M(c)."""
    out = np.empty((u.size, count), dtype=np.complex128)
    scale, error, drift = np.empty(u.size), np.empty(u.size), np.zeros(u.size)
    top, work = (count - 1) * h, 0.0
    for t in range(u.size):
        root = math.sqrt(u[t])
        low, high, again, end, peak = _windows(root, q, c)
        dx = _step(root, c, top, 33.0)
        scale[t] = peak
        wide = max(high - low, 0.0) + max(end - again, 0.0)
        if not wide / dx * count < _WORTH_IT:
            dx = _better_step(root, q, c, top, 33.0, peak, dx)
        nodes = wide / dx
        work += nodes * count
        if not (nodes < MOST_NODES and work < MOST_WORK):
            error[:] = math.inf
            out[:] = 0.0
            break
        one = int((high - low) / dx) + 2
        first = max(math.ceil((again - low) / dx), one)  # no node twice
        two = int((end - again) / dx) + 2 if end > again else 0
        size = one + two
        re, im, cos, sin = np.empty(size), np.zeros(size), np.empty(size), np.empty(size)
        # the sum of every node's weight times its own rounding, in units in the last place
        rounding, phase, kept = 0.0, 0.0, 0
        for i in range(size):
            x = low + (i if i < one else first + i - one) * dx
            y, slope = log_ratio(x, root, q)
            exponent = c * y - 0.5 * x * x - peak
            if exponent < -_DEPTH:
                continue
            off = _off(x, y, slope, root)
            re[kept] = math.exp(exponent) * dx / _ROOT
            rounding += re[kept] * (abs(c) * off + 3 * x * x + 2 * abs(peak))
            phase += re[kept] * h * off
            cos[kept], sin[kept] = math.cos(h * y), math.sin(h * y)
            kept += 1
        re, im, cos, sin = re[:kept], im[:kept], cos[:kept], sin[:kept]
        for k in range(count):
            a, b = turn(re, im, cos, sin)
            out[t, k] = complex(a, b)
        if not out[t, 0].real > 0.0:  # as in log_moment_at
            error[:] = math.inf
            break
        left_out = _left_out(root, c, dx, size, out[t, 0].real)
        error[t] = math.exp(-33.0) + left_out + ULP * (rounding / out[t, 0].real + kept + 8.0)
        drift[t] = ULP * (phase / out[t, 0].real + 6.0)
    return out, scale, error, drift
