r"""Both sides of the convergence theorems for trainings that are known exactly (:ref:`chap-convergence`)."""

import bisect
import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from adascale.scenario import FloatArray
from companion.bounds import (
    ConvergenceBound,
    SignalMoment,
    convergence_bound,
    nearly_exact_bound,
)
from companion.bounds.convergence import Real
from companion.theory.least_squares import LeastSquares


class Round(NamedTuple):
    """One round of independent trainings, each of shape (runs, d)."""

    model: FloatArray
    r""":math:`\boldsymbol\theta_t`."""
    signal: FloatArray
    r""":math:`\mathbf s_t`, the average of the devices' sampled gradients."""
    full_gradient: FloatArray
    r"""The gradient at :math:`\boldsymbol\theta_t` over *all* samples held in the round."""


class Training(NamedTuple):
    """How the least-squares example is trained."""

    problem: LeastSquares
    """Where samples come from."""
    start: FloatArray
    r""":math:`\boldsymbol\theta_0`, shape (d,)."""
    learning_rate: float
    r""":math:`\lambda`."""
    noise_energy: FloatArray
    r""":math:`w_t`, shape (T,)."""
    batch_size: float
    """:math:`B`, of every device."""
    dataset_size: int
    """:math:`n`, of every device."""

    @property
    def initial_gap(self) -> float:
        r""":math:`f(\boldsymbol\theta_0) - f^\star`."""
        return float(self.problem.loss(self.start)) - self.problem.constants.f_star

    @property
    def sampling_rate(self) -> float:
        """:math:`q = B/n`."""
        return self.batch_size / self.dataset_size

    @property
    def averaged(self) -> float:
        """:math:`MB`, the samples that a signal averages."""
        return len(self.problem.targets) * self.batch_size

    def signal_moment(self) -> SignalMoment:
        """Return :math:`D_1` and :math:`D_2` for uncorrelated samples."""
        return SignalMoment.uncorrelated(self.problem.constants, self.averaged)

    def moments(self, model: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        r"""Return :math:`\lVert\nabla f\rVert^2`, and each device's :math:`\lVert\nabla f_m\rVert^2, v_m`."""
        problem = self.problem
        u = model - problem.targets
        S = problem.feature_variance
        error = np.sum(S * u**2, axis=-1) + problem.label_noise**2
        g2 = _square(problem.gradient(model))
        h2 = _square(S * u)
        v = h2 + error * S.sum()
        return g2, h2, v

    def exact_squares(self, noise_split: ArrayLike | None = None) -> FloatArray:
        r"""Return the exact :math:`\mathbb E\lVert\nabla f(\boldsymbol\theta_t)\rVert^2` on fresh samples, shape (T,).

        The second moment of :math:`\boldsymbol\theta_t - \bar{\boldsymbol\tau}` obeys a linear recursion
        (:eq:`eq:ls-recursion`); its diagonal is closed, because :math:`\mathbf S` is diagonal.  The axes get equal
        shares of the noise energy, or ``noise_split``.
        """
        problem = self.problem
        rate = self.learning_rate
        s = problem.feature_variance
        spread = np.mean((problem.targets - problem.minimiser) ** 2, axis=0)
        split = 1 / s.size if noise_split is None else np.asarray(noise_split)
        second = (self.start - problem.minimiser) ** 2
        out = []
        for w in self.noise_energy:
            out.append(np.sum(s**2 * second))
            local = second + spread  # the mean over devices of E (theta - tau_m)^2
            sample_noise = s * np.sum(s * local) + s**2 * local
            sample_noise += problem.label_noise**2 * s
            batch_noise = (1 - self.sampling_rate) * s**2 * local
            sampling = (batch_noise + sample_noise) / self.averaged
            added = sampling + w / 2 * split
            second = (1 - rate * s) ** 2 * second + rate**2 * added
        return np.array(out)

    def exact(self, noise_split: ArrayLike | None = None) -> float:
        """Return the left side, the mean of :meth:`exact_squares`."""
        return float(self.exact_squares(noise_split).mean())

    def paper(self) -> ConvergenceBound:
        """Return the right side of :prf:ref:`thm-convergence`."""
        return convergence_bound(
            self.noise_energy,
            self.learning_rate,
            self.initial_gap,
            self.problem.constants,
        )

    def nearly_exact(self, **others: Any) -> ConvergenceBound:
        """Return the right side of :prf:ref:`thm-nearly-exact`.

        ``others`` take the place of what the example has for ``smoothness, signal, mean_curvature``.
        """
        variance = self.problem.feature_variance
        own = {
            "smoothness": variance.max(),
            "signal": self.signal_moment(),
            "mean_curvature": variance.mean(),
        }
        return nearly_exact_bound(
            self.noise_energy,
            self.learning_rate,
            self.initial_gap,
            **own | others,
        )

    def halved(self) -> float:
        """Return the right side of :prf:ref:`thm-sharper`, with 1/2 for the bracket and the largest curvature."""
        L = self.problem.constants.smoothness
        c = self.signal_moment().bracket(self.learning_rate, L)
        bound = self.nearly_exact(mean_curvature=L)
        return float(2 * c * bound.total)

    def rounds(
        self,
        rng: np.random.Generator,
        runs: int,
        data: tuple[FloatArray, FloatArray] | None = None,
    ) -> Iterator[Round]:
        r"""FedSGD over the air, ``runs`` trainings side by side: every round before its update (:eq:`eq:model-update`).

        :math:`\mathbf s_t` is that of :eq:`eq:decomposition` with Poisson batches (:eq:`eq:averaging`).  ``data`` are
        features (runs or 1, M, n, d) and labels that *every* round uses; without them every round draws new ones.
        """
        n = self.dataset_size
        M, d = self.problem.targets.shape
        model = np.tile(self.start, (runs, 1))
        for w in self.noise_energy:
            now = self.problem.draw(rng, runs, n) if data is None else data
            features, labels = now
            residual = (features @ model[:, None, :, None])[..., 0] - labels
            batch = rng.random(residual.shape) < self.sampling_rate
            # both averages of gradients x (x' theta - y) in one product
            weighted = np.stack(
                [
                    batch * residual / self.averaged,
                    residual / (M * n),
                ]
            )
            local = (weighted[..., None, :] @ features)[..., 0, :]
            signal, full_gradient = local.sum(axis=2)
            yield Round(model, signal, full_gradient)
            noise = np.sqrt(w / (2 * d)) * rng.standard_normal(model.shape)
            model = model - self.learning_rate * (signal + noise)

    def squared_gradients(self, rng: np.random.Generator, runs: int) -> FloatArray:
        """Squared norm of the true gradient in every round of ``runs`` simulated trainings, shape (runs, T)."""
        models = np.stack([now.model for now in self.rounds(rng, runs)], axis=1)
        return _square(self.problem.gradient(models))


def example(
    rounds: int = 1000, rate: float = 0.02, energy: float = 5.0, spread: float = 0.15
) -> Training:
    """Train five devices with 20 samples and batches of 4, on five features (:ref:`sec-convergence-example`).

    ``energy`` is the noise energy of every round, and ``spread`` says how much the devices' targets differ.
    """
    deviation = np.random.default_rng(0).standard_normal((5, 5))
    problem = LeastSquares(
        feature_variance=np.array([1, 1, 0.8, 0.6, 0.5]),
        targets=0.3 + spread * (deviation - deviation.mean(axis=0)),
        label_noise=0.3,
    )
    return Training(
        problem,
        start=np.zeros(5),
        learning_rate=rate,
        noise_energy=np.full(rounds, energy),
        batch_size=4,
        dataset_size=20,
    )


def step_moments(
    training: Training, model: FloatArray, rng: np.random.Generator, runs: int
) -> dict[str, tuple[FloatArray, float]]:
    """Return every expectation in the proofs of the two lemmas by name: simulated rounds, and the exact value.

    The first noise energy of the training counts.  Each of the ``runs`` rounds has fresh samples.
    """
    problem = training.problem
    d = problem.feature_variance.size
    w = training.noise_energy[0]
    B = training.batch_size

    # the sample gradients, and the sample noise z in them
    features, labels = problem.draw(rng, runs, training.dataset_size)
    sample = _sample_gradients(features, labels, model)
    local = problem.feature_variance * (model - problem.targets)
    z = sample - local[:, None, :]
    z2 = _square(z)

    # the two parts of the signal: the sizes of the batches, and the sample noise
    batch = rng.random(z2.shape) < training.sampling_rate
    count = batch.sum(axis=-1)
    p = (count[..., None] / B * local).mean(axis=1)
    xi = (np.einsum("rmi,rmid->rmd", batch, z) / B).mean(axis=1)
    signal = p + xi
    noise = np.sqrt(w / (2 * d)) * rng.standard_normal(signal.shape)
    within = (count * np.einsum("rmi,rmi->rm", batch, z2)).mean(axis=1) / B**2

    # the exact values
    gradient = problem.gradient(model)
    g2, h2, v = training.moments(model)
    averaged = training.averaged
    rest = 1 - training.sampling_rate
    k2 = 1 + rest / B
    from_batches = rest * h2.mean()
    from_samples = v.mean()
    return {
        "squared batch size / B²": ((count**2 / B**2).mean(axis=1), k2),
        "sample noise": (z2.mean(axis=(1, 2)), from_samples),
        "⟨∇f, s + ñ⟩": ((signal + noise) @ gradient, float(g2)),
        "cross term of p and ξ": (np.sum(p * xi, axis=-1), 0.0),
        "‖p‖²": (_square(p), g2 + from_batches / averaged),
        "‖ξ‖²": (_square(xi), from_samples / averaged),
        "Cauchy-Schwarz sum": (within, k2 * from_samples),
        "cross term of s and ñ": (np.sum(signal * noise, axis=-1), 0.0),
        "‖ñ‖²": (_square(noise), w / 2),
        "‖s‖²": (_square(signal), g2 + (from_batches + from_samples) / averaged),
    }


def _sample_gradients(features, labels, model):
    """Return the gradient of the loss of every sample."""
    return features * (features @ model - labels)[..., None]


def _square(vector):
    """Squared norm along the last axis."""
    return np.sum(vector**2, axis=-1)


def relative_bias(
    training: Training, rng: np.random.Generator, runs: int, *, reuse: bool
) -> tuple[FloatArray, FloatArray]:
    """Return the relative bias of the sampled gradient and its standard error, shape (T,) (:eq:`eq:reuse-bias`).

    Each run has its own data set; with ``reuse`` it keeps it over all rounds, without it draws a new one in every
    round.
    """
    data = training.problem.draw(rng, runs, training.dataset_size) if reuse else None
    rounds = [*training.rounds(rng, runs, data)]
    true = training.problem.gradient(np.stack([now.model for now in rounds]))
    sampled = np.stack([now.full_gradient for now in rounds])
    top = np.sum(true * (sampled - true), axis=-1)
    bottom = _square(true)
    size = bottom.mean(axis=1)
    estimate = top.mean(axis=1) / size
    # the error of a ratio of means, to first order
    apart = top - estimate[:, None] * bottom
    error = apart.std(axis=1, ddof=1) / (math.sqrt(runs) * size)
    return estimate, error


def reuse_left_side(samples: int, rounds: NDArray[np.int64]) -> FloatArray:
    r"""Return the left side in :prf:ref:`prop-reuse` over :math:`\sigma_y^2`, for :math:`\lambda = 1/\sqrt T`.

    .. math::
        \frac1n \Big(1 - \frac{2 (1 - x^T)}{\lambda T} + \frac{1 - x^{2T}}{(1 - x^2)\, T}\Big), \qquad x = 1 - \lambda
    """
    T = rounds
    rate = 1 / np.sqrt(T)
    x = 1 - rate
    linear = 2 * (1 - x**T) / (rate * T)
    square = (1 - x ** (2 * T)) / ((1 - x**2) * T)
    return (1 - (linear - square)) / samples


def reuse_breaks(samples: int, batch_second_moment: float) -> int:
    """Return the least T from which on reused data always break the bound in :prf:ref:`prop-reuse`.

    Beyond :math:`(k^2 n + 2)^2` they do so surely; below, every :math:`T` is tried.
    """
    k2 = batch_second_moment
    last = math.ceil((k2 * samples + 2) ** 2)
    T = np.arange(4, last + 1)
    bound = k2 / np.sqrt(T)
    holds = T[reuse_left_side(samples, T) <= bound]
    # where none holds, all from 4 on break it
    return int(holds.max(initial=3)) + 1


def server_decay(zeta: float, variance: float = 0.99) -> int:
    r"""From how many rounds on weight decay :math:`\zeta` by the server breaks the bound: one device and dimension.

    All samples are equal, and the moments of :math:`e_t = (1 + \zeta)\theta_t - 1` are known from

    .. math:: e_{t+1} = (1 - \lambda (1 + \zeta) - \lambda \delta_t)\, e_t + \zeta \lambda \delta_t, \qquad e_0 = -1

    with :math:`\lambda = 1 / (4 (1 + \zeta))` and :math:`\delta_t = |\mathcal B_t| / B - 1`, whose variance
    :math:`(1 - q)/B` is that of batches of one sample of a hundred.  The right side is 4 over the number of rounds,
    whatever :math:`\zeta` is.
    """
    rate = 1 / (4 * (1 + zeta))
    keep = 0.75**2 + rate**2 * variance
    rest = rate**2 * zeta**2 * variance / (1 - keep)  # E e^2 in the long run
    # E e^2 = rest + first keep^t + push 0.75^t
    push = 2 * rate**2 * zeta * variance / (0.75 - keep)
    first = 1 - rest - push

    def total(T):
        decaying = first * (1 - keep**T) / (1 - keep)
        decaying += push * (1 - 0.75**T) / 0.25
        return float(T * rest + decaying)

    return bisect.bisect_left(range(10**15), True, key=lambda T: total(T) > 4)


def used_power(
    problem: LeastSquares,
    model: FloatArray,
    clip_norm: float,
    batch_size: float,
    sampling_rate: float,
    rng: np.random.Generator,
) -> float:
    r"""Return the largest :math:`\mathbb E\lVert\mathbf g_m\rVert^2 / (G^2 k_m^2)` of fresh samples, clipped.

    40,000 samples stand for the law of each device; the batch size and the sampling rate are those of all devices.
    """
    features, labels = problem.draw(rng, 1, 40_000)
    gradients = _sample_gradients(features[0], labels[0], model)
    norm = np.linalg.norm(gradients, axis=-1, keepdims=True)
    gradients *= np.minimum(1, clip_norm / norm)
    mean = _square(gradients.mean(axis=1))
    second = _square(gradients).mean(axis=1)
    power = (1 - sampling_rate / batch_size) * mean + second / batch_size
    k2 = 1 + (1 - sampling_rate) / batch_size
    return float(power.max() / (clip_norm**2 * k2))


def compare(cases: Sequence[Training]) -> dict[str, FloatArray]:
    """Return both theorems and the exact left side of every training, each of shape (cases,).

    The paper's four terms by name, ``total`` their sum, ``near`` the nearly exact bound, ``exact`` the left side.
    """
    papers = [case.paper() for case in cases]
    curves = dict(zip(ConvergenceBound._fields, np.array(papers).T, strict=True))
    return curves | {
        "total": np.array([bound.total for bound in papers]),
        "near": np.array([case.nearly_exact().total for case in cases]),
        "exact": np.array([case.exact() for case in cases]),
    }


def momentum_over_bound(momentum: Real, learning_rate: Real) -> Real:
    r"""Return the squared gradient in the long run over the paper's bound, on :math:`\theta^2/2` with noise alone.

    .. math:: \frac{1 + \mu}{(1 - \mu)(2 (1 + \mu) - \lambda)}

    for :math:`v \leftarrow \mu v + \theta + \xi`, :math:`\theta \leftarrow \theta - \lambda v`,
    :math:`\mathbb E \xi^2 = w/2`, over :math:`\lambda w/2`.
    """
    mu = momentum
    return (1 + mu) / ((1 - mu) * (2 * (1 + mu) - learning_rate))
