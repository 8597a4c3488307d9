r"""Moments of one round's privacy loss at complex order, by a trapezoidal rule with a proven error (:ref:`app-exact`).

:math:`M(z) = \mathbb E[(1 - q + q e^L)^z]`, :math:`L = \sqrt u\, x - u / 2`, :math:`x \sim \mathcal N(0, 1)`,
:math:`u = 1/\sigma^2`; errors are relative to :math:`M(c)`, :math:`c = \mathrm{Re}\, z > 1` or < 0.
"""

import math

import numpy as np
from numpy.typing import NDArray

from adascale.checks import FloatArray

ComplexArray = NDArray[np.complex128]
Numbers = float | FloatArray

MOST_NODES = 200_000  # for one round; a round that needs more is not certified
# nodes times points on the line, over all rounds of a call: a second or two
MOST_WORK = 1e9
# elementary functions are assumed accurate to two of these, four times the documented error
ULP = 2.0**-52
_DEPTH = 42.0  # logarithms below the peak down to which the integrand is summed: exp(-42) = 6e-19
_REACH = 9.2  # beyond 0 and c sqrt(u) by this much, it is below that
_FEW = 2048  # nodes that are summed without looking where the integrand is large; and of a search for it at each stride
_STRIDE = 64  # from one stride of that search to the next
_ROOT = math.sqrt(2 * math.pi)
# beyond floating point nothing is proven
QUIET = np.errstate(over="ignore", divide="ignore", invalid="ignore")
_BLOCK = 512  # angles at a time, to stay in the cache
# multiplications in each product of matrices: for larger ones OpenBLAS uses several threads
_ONE_CORE = 2**15
_MOST_ANGLES = 2**14  # in a sum by products of matrices
_SHORT = 16  # sums of so few terms are not worth a transform
_TERMS = 17  # of a series in at most pi / 4: the remainder is below a quarter of a unit in the last place


@QUIET
def log_ratio(loss: FloatArray, q: FloatArray) -> FloatArray:
    """Compute y = ln(1 - q + q e^L) to full relative precision."""
    w = q * np.expm1(loss)
    y = np.log1p(w)
    if q.size and q.max() > 0.5:  # 1 + w may cancel
        y = np.where(w > -0.5, y, np.log((1.0 - q) + q * np.exp(loss)))
    far = loss > np.maximum(30.0, -np.log(q))
    if far.any():  # e^L may overflow
        rest = np.log1p((1.0 - q) / q * np.exp(-loss))
        y = np.where(far, loss + np.log(q) + rest, y)
    return y


def _off(x: FloatArray, y: FloatArray, q: Numbers, root: Numbers) -> FloatArray:
    """Bound the error of y(x), in units in the last place."""
    # of y in L it is 1 - (1 - q) e^{-y}
    slope = np.minimum(q + np.maximum(y, 0.0), 1.0)
    return 8 * np.abs(y) + 4 * slope * root * (2 * np.abs(x) + root)


def _step(root: FloatArray, c: Numbers, top: float, accuracy: float) -> FloatArray:
    """Find the largest step with strip bound 2 e^{...} / (e^{2 pi d / step} - 1) <= exp(-accuracy), accuracy > 4.3."""
    root = root[:, None]
    c = np.reshape(c, (-1, 1))
    d = np.minimum(
        math.pi / root * np.where(c > 0.0, 0.999, 0.9), 40.0
    ) * 0.8 ** np.arange(24)
    exponent = (
        accuracy
        + 0.7
        + d * (0.5 * d + top * root)
        + np.minimum(c, 0.0) * np.log(np.cos(0.5 * root * d))
    )
    return np.asarray((2 * math.pi * d / exponent).max(axis=1))


def _start(root: Numbers, c: Numbers) -> FloatArray:
    return np.minimum(np.multiply(c, root), 0.0) - _REACH


def _lattice(root: float, q: float, c: float, dx: float) -> FloatArray:
    """Find the nodes at which the integrand may exceed exp(-42) of its peak; none if there are too many."""
    low = float(_start(root, c))
    size = (abs(c) * root + 2 * _REACH) / dx + 2
    stride = 1
    if not size < 1e15:
        return np.empty(0)
    while size > 2 * _FEW * stride:
        stride *= _STRIDE
    first = np.arange(0, size, stride)
    peak = -math.inf
    while stride > 1:
        x = low + dx * np.array([first, first + stride])
        f = c * log_ratio(root * (x - 0.5 * root), np.asarray(q)) - 0.5 * x * x
        peak = max(peak, float(f.max()))
        most = f.max(axis=0) + (0.125 * (dx * stride) ** 2 if c > 0 else 0.0)
        stride //= _STRIDE
        first = (
            first[most >= peak - _DEPTH, None] + stride * np.arange(_STRIDE)
        ).ravel()
        if first.size > 2 * MOST_NODES:
            return np.empty(0)
    return low + dx * first


def _left_out(
    root: Numbers, c: Numbers, dx: Numbers, nodes: float, total: Numbers
) -> FloatArray:
    """Bound the sum of the nodes below exp(-42) of the peak, relative to ``total``, the sum of the others."""
    return np.asarray(
        math.exp(-_DEPTH)
        * ((np.abs(c) * np.asarray(root) + 60.0) / dx + nodes)
        * dx
        / _ROOT
        / total
    )


@QUIET
def log_moments(
    u: Numbers, q: Numbers, c: Numbers, accuracy: float = 24.0
) -> tuple[FloatArray, FloatArray]:
    """Compute ln M(c) of rounds to exp(-accuracy), and a relative bound on all errors of M(c); inf is too much work."""
    shape = np.broadcast_shapes(np.shape(u), np.shape(q), np.shape(c))
    u, q, c = (np.broadcast_to(array, shape).ravel() for array in (u, q, c))
    root = np.sqrt(u)
    dx = _step(root, c, 0.0, accuracy)
    size = (np.abs(c) * root + 2 * _REACH) / dx + 2
    value = np.full(u.shape, math.inf)
    off = np.full(u.shape, math.inf)

    def add(where: NDArray[np.intp], x: FloatArray) -> None:
        step = dx[where]
        root_u = root[where, None]
        order = c[where, None]
        rate = q[where, None]
        y = log_ratio(root_u * (x - 0.5 * root_u), rate)
        square = x * x
        exponent = order * y - 0.5 * square
        peak = exponent.max(axis=1)
        weight = np.exp(exponent - peak[:, None])
        total = weight.sum(axis=1)
        lost = (weight * (np.abs(order) * _off(x, y, rate, root_u) + 3 * square)).sum(
            axis=1
        ) / total
        total *= step / _ROOT
        value[where] = log = np.log(total) + peak
        lost += x.shape[1] + 8.0 + 4 * np.abs(log) + 10 * np.abs(peak)
        off[where] = (
            math.exp(-accuracy)
            + _left_out(root_u[:, 0], order[:, 0], step, x.shape[1], total)
            + ULP * lost
        )

    few = np.argsort(size)[: int((size < _FEW).sum())]
    for where in (
        few[i : i + 64] for i in range(0, few.size, 64)
    ):  # rounds with about as many nodes are one array
        nodes = dx[where, None] * np.arange(math.ceil(size[where[-1]]))
        add(where, _start(root[where, None], c[where, None]) + nodes)
    for t in np.flatnonzero(~(size < _FEW)):
        if 0 < (x := _lattice(root[t], q[t], c[t], dx[t])).size <= MOST_NODES:
            add(np.array([t]), x[None])
    return value.reshape(shape), off.reshape(shape)


def log_moments_above(
    u: Numbers, q: Numbers, c: Numbers, accuracy: float = 24.0
) -> FloatArray:
    """Bound ln M(c) of rounds from above, rounding included; inf where it is not known to within four per cent."""
    value, off = log_moments(u, q, c, accuracy)
    return np.where(off < 0.04, value + 1.05 * off, math.inf)


def sum_of_waves(
    weight: FloatArray | ComplexArray, loss: FloatArray, step: float, count: int
) -> tuple[ComplexArray, float]:
    """Sum weight * e^{i k step loss}, k < count; bound the error in units of the last place of the weights' sum."""
    if count < _SHORT or (weight.size < _FEW and count <= _MOST_ANGLES):
        return waves_by_products(weight, loss, step, count)
    return waves_by_transform(weight, loss, step, count)


def waves_by_products(
    weight: FloatArray | ComplexArray, loss: FloatArray, step: float, count: int
) -> tuple[ComplexArray, float]:
    """Sum by products of matrices of powers, each so small that it is computed by one thread."""
    angle = step * loss
    side = math.isqrt(count - 1) + 1
    some = min(_ONE_CORE // side**2, math.isqrt(weight.size) + 1, _BLOCK)
    many = _BLOCK // some * some
    total = np.zeros((side, side), dtype=complex)
    for start in range(0, weight.size, many):
        block = slice(start, start + many)
        fine, coarse = (
            np.cos(turn) + 1j * np.sin(turn)
            for turn in (angle[block], side * angle[block])
        )
        fine = _up_to(side - 1, np.ones(fine.size), fine)
        coarse = _up_to(side - 1, weight[block], coarse)
        for first in range(0, fine.shape[1], some):
            part = slice(first, first + some)
            total += coarse[:, part] @ fine[:, part].T
    return total.ravel()[:count], 12.0 * side + 1.5 * some + weight.size / some


def _up_to(
    most: int, first: FloatArray | ComplexArray, once: ComplexArray
) -> ComplexArray:
    """Return first * once^k for k <= most, each by k products."""
    out = np.empty((most + 1, once.size), dtype=complex)
    out[0] = first
    for k in range(most):
        np.multiply(out[k], once, out=out[k + 1])
    return out


def waves_by_transform(
    weight: FloatArray | ComplexArray, loss: FloatArray, step: float, count: int
) -> tuple[ComplexArray, float]:
    """Sum by Fourier transforms over multiples of 2 pi / size, times a series in what remains of each angle."""
    size = 4 << (count - 1).bit_length()
    turn = loss * (-step * size / (2 * math.pi))
    cell = np.rint(turn)
    rest = turn - cell
    place = (cell % size).astype(np.intp)
    parts = [weight.real, weight.imag] if np.iscomplexobj(weight) else [weight]
    slope = (-2j * math.pi / size) * np.arange(count)
    factor = np.ones(count, dtype=complex)
    total = np.zeros(count, dtype=complex)
    for term in range(_TERMS):
        waves = [np.fft.rfft(np.bincount(place, part, size))[:count] for part in parts]
        total += factor * (waves[0] + 1j * waves[1] if len(waves) == 2 else waves[0])
        factor *= slope / (term + 1)
        parts = [part * rest for part in parts]
    fullest = int(np.bincount(place).max())
    return total, 9.0 * math.log2(size) + 1.1 * fullest + 26.0


@QUIET
def complex_moments(
    u: FloatArray, q: float, c: float, h: float, count: int
) -> tuple[ComplexArray, FloatArray, FloatArray, FloatArray]:
    """Return M(c + i k h) exp(-scale), k < count, for every u, the scales, and a, b of its error a + k b over M(c)."""
    out = np.zeros((u.size, count), dtype=complex)
    scale = np.zeros(u.size)
    error = np.full(u.size, math.inf)
    drift = np.zeros(u.size)
    top = (count - 1) * h
    work = 0
    root = np.sqrt(u)
    steps = _step(root, c, top, 33.0)
    for t, (root_u, dx) in enumerate(zip(root.tolist(), steps.tolist(), strict=True)):
        x = _lattice(root_u, q, c, dx)
        work += x.size * count
        if not (0 < x.size <= MOST_NODES and work < MOST_WORK):
            break
        y = log_ratio(root_u * (x - 0.5 * root_u), np.asarray(q))
        exponent = c * y - 0.5 * x * x
        scale[t] = peak = float(exponent.max())
        high = exponent >= peak - _DEPTH
        x = x[high]
        y = y[high]
        weight = np.exp(exponent[high] - peak) * dx / _ROOT
        off = _off(x, y, q, root_u)
        total = float(weight.sum())
        out[t], lost = sum_of_waves(weight, y, h, count)
        rounding = float((weight * (abs(c) * off + 3 * x * x)).sum()) / total
        rounding += 2 * abs(peak)
        left_out = _left_out(root_u, c, dx, high.size, total)
        error[t] = math.exp(-33.0) + left_out + ULP * (rounding + lost + 16.0)
        drift[t] = ULP * h * float((weight * (off + 1.2 * np.abs(y))).sum()) / total
    return out, scale, error, drift
