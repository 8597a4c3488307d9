r"""Federated least squares with Gaussian features: every constant of the convergence theorem in closed form.

Device m holds samples :math:`\mathbf x \sim \mathcal N(\mathbf 0, \mathbf S)`, with a diagonal :math:`\mathbf S`, and
:math:`y = \langle\mathbf x, \boldsymbol\tau_m\rangle + \epsilon`.  The loss of a sample is
:math:`\frac12 (\langle\mathbf x, \boldsymbol\theta\rangle - y)^2`.  The chapter :ref:`chap-convergence`
derives what stands here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from adascale import checks as check


class Constants(NamedTuple):
    """What the convergence theorem asks for."""

    smoothness: float
    """:math:`L` of A1."""
    A1: float
    r""":math:`A_1` of A3: the part of the sample noise that grows with the gradient."""
    A2: float
    r""":math:`A_2` of A3: the part that stays."""
    C1: float
    r""":math:`C_1` of A4: the part of the disagreement that grows with the gradient."""
    C2: float
    r""":math:`C_2` of A4: the part that stays."""
    f_star: float
    r""":math:`f^\star` of A2."""


class LeastSquaresRound(NamedTuple):
    """One round of ``runs`` independent trainings."""

    model: NDArray[np.float64]
    r""":math:`\boldsymbol\theta_t`, shape (runs, d)."""
    signal: NDArray[np.float64]
    r""":math:`\mathbf s_t`, the average of the devices' sampled gradients, shape (runs, d)."""
    full_gradient: NDArray[np.float64]
    r"""The gradient at :math:`\boldsymbol\theta_t` over *all* samples held in the round, shape (runs, d)."""


@dataclass(frozen=True)
class LeastSquares:
    r"""The population: what every device draws its samples from.

    Parameters
    ----------
    feature_variance : array_like
        Diagonal of :math:`\mathbf S`, shape (d,), > 0.
    targets : array_like
        :math:`\boldsymbol\tau_m`, shape (M, d).
    label_noise : float
        Standard deviation of :math:`\epsilon`, > 0.
    """

    feature_variance: NDArray[np.float64]
    targets: NDArray[np.float64]
    label_noise: float

    def __post_init__(self) -> None:
        variance = check.positive("feature_variance", self.feature_variance)
        targets = check.as_floats("targets", self.targets)
        noise = check.positive("label_noise", self.label_noise)
        if variance.ndim != 1 or variance.size == 0:
            raise ValueError(f"feature_variance must have shape (d,), got shape {variance.shape}")
        if targets.ndim != 2 or targets.shape[1] != variance.size or not np.isfinite(targets).all():
            raise ValueError(f"targets must be finite, of shape (M, {variance.size}), got shape {targets.shape}")
        if noise.ndim != 0:
            raise ValueError(f"label_noise must be one number, got shape {noise.shape}")
        object.__setattr__(self, "feature_variance", variance)
        object.__setattr__(self, "targets", targets)
        object.__setattr__(self, "label_noise", float(noise))

    @property
    def minimiser(self) -> NDArray[np.float64]:
        r""":math:`\bar{\boldsymbol\tau}`, the mean of the targets: all devices share :math:`\mathbf S`."""
        mean: NDArray[np.float64] = self.targets.mean(axis=0)
        return mean

    @property
    def constants(self) -> Constants:
        r"""The least constants (:eq:`eq:ls-constants`).

        .. math::
            L = s_{\max}, \quad A_1 = \frac{\operatorname{tr}\mathbf S}{s_{\min}} + 1, \quad
            A_2 = \sigma_\epsilon^2 \operatorname{tr}\mathbf S, \quad C_1 = 0, \quad
            C_2 = \frac1M \sum_m \lVert\mathbf S(\boldsymbol\tau_m - \bar{\boldsymbol\tau})\rVert^2
        """
        s, spread = self.feature_variance, self.targets - self.minimiser
        return Constants(
            smoothness=float(s.max()),
            A1=float(s.sum() / s.min() + 1),
            A2=float(self.label_noise**2 * s.sum()),
            C1=0.0,
            C2=float(np.mean(np.sum((s * spread) ** 2, axis=1))),
            f_star=float(self.loss(self.minimiser)),
        )

    def loss(self, model: ArrayLike) -> NDArray[np.float64]:
        r""":math:`f(\boldsymbol\theta)`, the mean of the devices' population losses; ``model`` of shape (..., d)."""
        offset = np.asarray(model)[..., None, :] - self.targets
        squares: NDArray[np.float64] = np.sum(self.feature_variance * offset**2, axis=-1)
        loss: NDArray[np.float64] = (np.mean(squares, axis=-1) + self.label_noise**2) / 2
        return loss

    def gradient(self, model: ArrayLike) -> NDArray[np.float64]:
        r""":math:`\nabla f(\boldsymbol\theta) = \mathbf S(\boldsymbol\theta - \bar{\boldsymbol\tau})`, (..., d)."""
        gradient: NDArray[np.float64] = self.feature_variance * (np.asarray(model) - self.minimiser)
        return gradient

    def draw(self, rng: np.random.Generator, runs: int, size: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Local data sets of ``size`` samples: features (runs, M, size, d) and labels (runs, M, size)."""
        shape = (runs, self.targets.shape[0], size)
        features = np.sqrt(self.feature_variance) * rng.standard_normal(shape + self.feature_variance.shape)
        labels = np.einsum("rmid,md->rmi", features, self.targets) + self.label_noise * rng.standard_normal(shape)
        return features, labels

    def expected_squared_gradients(
        self,
        start: ArrayLike,
        learning_rate: float,
        noise_energy: ArrayLike,
        batch_size: float,
        dataset_size: float,
        *,
        noise_split: ArrayLike | None = None,
    ) -> NDArray[np.float64]:
        r""":math:`\mathbb E\lVert\nabla f(\boldsymbol\theta_t)\rVert^2` of FedSGD on fresh samples, exactly, (T,).

        The second moment :math:`\mathbf U_t` of :math:`\boldsymbol\theta_t - \bar{\boldsymbol\tau}` obeys a linear
        recursion (:eq:`eq:ls-recursion`); its diagonal is closed, because :math:`\mathbf S` is diagonal.

        Parameters
        ----------
        start : array_like
            :math:`\boldsymbol\theta_0`, shape (d,).
        learning_rate : float
            :math:`\lambda`.
        noise_energy : array_like
            :math:`w_t \ge 0`, shape (T,).
        batch_size, dataset_size : float
            :math:`B` and :math:`n`, the same for all devices.
        noise_split : array_like, optional
            Shares of the noise energy that the axes get, shape (d,), >= 0, of sum 1.  Without it all get the same, as
            the receiver's noise does.

        Returns
        -------
        numpy.ndarray
            One value a round, before its update.
        """
        start, noise_energy, rate = _settings(self, start, learning_rate, noise_energy, batch_size, dataset_size)
        s, (M, d) = self.feature_variance, self.targets.shape
        spread = np.mean((self.targets - self.minimiser) ** 2, axis=0)
        split = np.full(d, 1 / d) if noise_split is None else check.at_least("noise_split", noise_split, 0)
        if split.shape != (d,) or not np.isclose(split.sum(), 1):
            raise ValueError(f"noise_split must have shape ({d},) and sum 1, got a sum of {split.sum():.6g}")
        second = (start - self.minimiser) ** 2
        out = np.empty(noise_energy.size)
        for t, w in enumerate(noise_energy):
            out[t] = np.sum(s**2 * second)
            local = second + spread  # the mean over devices of E (theta - tau_m)^2
            sample_noise = s * np.sum(s * local) + s**2 * local + self.label_noise**2 * s
            sampling = ((1 - rate) * s**2 * local + sample_noise) / (M * batch_size)
            second = (1 - learning_rate * s) ** 2 * second + learning_rate**2 * (sampling + w / 2 * split)
        return out


def empirical_constants(features: ArrayLike, labels: ArrayLike, slack: float = 1.25) -> Constants:
    r"""The constants when the data are fixed and :math:`f_m` is the mean loss over the samples of device m.

    Within a device the mean square of the sample noise is a quadratic :math:`\mathbf v^\top \mathbf P \mathbf v +
    2 \mathbf j^\top \mathbf v + j_0` in the gradient :math:`\mathbf v = \nabla f_m`.  :math:`A_1` is ``slack`` times
    the largest eigenvalue of :math:`\mathbf P` over all devices, and :math:`A_2` the least offset that then suffices:

    .. math::
        \max_{\mathbf v} \big(\mathbf v^\top \mathbf P \mathbf v + 2 \mathbf j^\top \mathbf v + j_0
        - A_1 \lVert\mathbf v\rVert^2\big) = j_0 + \mathbf j^\top (A_1 \mathbf I - \mathbf P)^{-1} \mathbf j

    Likewise :math:`C_1` and :math:`C_2`.

    Parameters
    ----------
    features, labels : array_like
        Shapes (M, n, d) and (M, n), n >= d; every device's samples must span all d directions.
    slack : float
        :math:`A_1` and :math:`C_1` over their infimum, > 1: larger ones allow smaller :math:`A_2`, :math:`C_2`.

    Returns
    -------
    Constants
        Those of the empirical loss.
    """
    features, labels = check.as_floats("features", features), check.as_floats("labels", labels)
    if features.ndim != 3 or labels.shape != features.shape[:2] or features.shape[1] < features.shape[2]:
        shapes = f"{features.shape} and {labels.shape}"
        raise ValueError(f"features and labels must have shapes (M, n, d) and (M, n) with n >= d, got {shapes}")
    if not slack > 1:
        raise ValueError(f"slack must be > 1, got {slack}")
    n = features.shape[1]
    hessian = np.einsum("mid,mie->mde", features, features) / n
    moment = np.einsum("mid,mi->md", features, labels) / n
    best = np.linalg.solve(hessian, moment[..., None])[..., 0]
    mean = hessian.mean(axis=0)
    minimiser = np.linalg.solve(mean, moment.mean(axis=0))
    residual = np.einsum("mid,md->mi", features, best) - labels
    square = np.sum(features**2, axis=-1)
    quadratics = []
    for m, inverse in enumerate(np.linalg.inv(hessian)):
        quartic = np.einsum("i,id,ie->de", square[m], features[m], features[m]) / n
        r = inverse @ np.mean((square[m] * residual[m])[:, None] * features[m], axis=0)
        quadratics.append((inverse @ quartic @ inverse - np.eye(len(r)), r, np.mean(square[m] * residual[m] ** 2)))
    A1, A2 = _dominate(quadratics, slack)
    tilt = (hessian - mean) @ np.linalg.inv(mean)
    shift = hessian @ minimiser - moment
    P, r = np.einsum("mde,mdf->ef", tilt, tilt) / len(tilt), np.einsum("mde,md->e", tilt, shift) / len(tilt)
    C1, C2 = _dominate([(P, r, np.mean(np.sum(shift**2, axis=1)))], slack)
    f_star = np.mean((features @ minimiser - labels) ** 2) / 2
    return Constants(float(np.linalg.eigvalsh(hessian).max()), A1, A2, C1, C2, float(f_star))


def _dominate(
    quadratics: Sequence[tuple[NDArray[np.float64], NDArray[np.float64], float]], slack: float
) -> tuple[float, float]:
    """Slope and offset of the isotropic quadratic above all of v'Pv + 2 r'v + c."""
    slope = slack * max(np.linalg.eigvalsh(P).max() for P, _, _ in quadratics)
    offset = max(c + r @ np.linalg.pinv(slope * np.eye(len(r)) - P) @ r for P, r, c in quadratics)
    return float(slope), float(offset)


def simulate(
    problem: LeastSquares,
    rng: np.random.Generator,
    start: ArrayLike,
    learning_rate: float,
    noise_energy: ArrayLike,
    batch_size: float,
    dataset_size: int,
    *,
    runs: int = 1,
    data: tuple[NDArray[np.float64], NDArray[np.float64]] | None = None,
) -> Iterator[LeastSquaresRound]:
    r"""FedSGD over the air, ``runs`` trainings side by side: every round before its update.

    .. math::
        \boldsymbol\theta_{t+1} = \boldsymbol\theta_t - \lambda (\mathbf s_t + \tilde{\mathbf n}_t), \qquad
        \tilde{\mathbf n}_t \sim \mathcal N\Big(\mathbf 0, \frac{w_t}{2d} \mathbf I\Big)

    with :math:`\mathbf s_t` of :eq:`eq:decomposition` and Poisson batches (:eq:`eq:averaging`).

    Parameters
    ----------
    problem : LeastSquares
        Where samples come from.
    rng : numpy.random.Generator
        All randomness.
    start, learning_rate, noise_energy, batch_size, dataset_size
        As for ``LeastSquares.expected_squared_gradients``, ``dataset_size`` a whole number.
    runs : int
        Independent trainings.
    data : tuple of array_like, optional
        Features (runs or 1, M, n, d) and labels that are used in *every* round.  Without it every round draws new ones.

    Returns
    -------
    iterator of LeastSquaresRound
        One for each round.
    """
    start, noise_energy, rate = _settings(problem, start, learning_rate, noise_energy, batch_size, dataset_size)
    check.whole("dataset_size", dataset_size)
    model = np.tile(start, (check.whole("runs", runs), 1))
    M, d = problem.targets.shape
    if data is not None and (np.shape(data[0])[1:] != (M, dataset_size, d) or len(data[0]) not in (1, runs)):
        raise ValueError(f"data must have features ({runs} or 1, {M}, {dataset_size}, {d}), got {np.shape(data[0])}")

    def rounds(model: NDArray[np.float64]) -> Iterator[LeastSquaresRound]:
        for w in noise_energy:
            features, labels = problem.draw(rng, runs, dataset_size) if data is None else data
            residual = (features @ model[:, None, :, None])[..., 0] - labels
            batch = rng.random(residual.shape) < rate
            weighted = np.stack([batch * residual / (M * rate * dataset_size), residual / (M * dataset_size)])
            shared = np.broadcast_to(features, (*residual.shape, d))
            signal, full = np.einsum("krmi,rmid->krd", weighted, shared)
            yield LeastSquaresRound(model, signal, full)
            noise = np.sqrt(w / (2 * d)) * rng.standard_normal(model.shape)
            model = model - learning_rate * (signal + noise)

    return rounds(model)


def _settings(
    problem: LeastSquares,
    start: ArrayLike,
    learning_rate: float,
    noise_energy: ArrayLike,
    batch_size: float,
    dataset_size: float,
) -> tuple[NDArray[np.float64], NDArray[np.float64], float]:
    """Start, noise energies and sampling rate of a training, checked."""
    start = check.as_floats("start", start)
    if start.shape != problem.feature_variance.shape or not np.isfinite(start).all():
        raise ValueError(f"start must be finite, of shape {problem.feature_variance.shape}, got shape {start.shape}")
    if check.positive("learning_rate", learning_rate).ndim != 0:
        raise ValueError(f"learning_rate must be one number, got {learning_rate!r}")
    noise_energy = check.at_least("noise_energy", noise_energy, 0)
    if noise_energy.ndim != 1:
        raise ValueError(f"noise_energy must have shape (T,), got shape {noise_energy.shape}")
    rate = check.positive("batch_size", batch_size) / check.positive("dataset_size", dataset_size)
    if rate.ndim != 0:
        raise ValueError(f"batch_size and dataset_size must be one number each, got shape {rate.shape}")
    return start, noise_energy, float(check.sampling_rate("sampling rate batch_size / dataset_size", rate))
