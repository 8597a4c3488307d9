r"""Federated least squares with Gaussian features: every constant of the convergence theorem in closed form.

Device m holds samples :math:`\mathbf x \sim \mathcal N(\mathbf 0, \mathbf S)`, with a diagonal :math:`\mathbf S`, and
:math:`y = \langle\mathbf x, \boldsymbol\tau_m\rangle + \epsilon`.  The loss of a sample is
:math:`\frac12 (\langle\mathbf x, \boldsymbol\theta\rangle - y)^2`.  The chapter :ref:`chap-convergence`
derives what stands here.
"""

from dataclasses import dataclass

import numpy as np

from adascale.scenario import FloatArray
from companion.bounds import Constants


@dataclass(frozen=True)
class LeastSquares:
    r"""The population: what every device draws its samples from."""

    feature_variance: FloatArray
    r"""Diagonal of :math:`\mathbf S`, shape (d,), > 0."""
    targets: FloatArray
    r""":math:`\boldsymbol\tau_m`, shape (M, d)."""
    label_noise: float
    r"""Standard deviation of :math:`\epsilon`, > 0."""

    @property
    def minimiser(self) -> FloatArray:
        r""":math:`\bar{\boldsymbol\tau}`, the mean of the targets: all devices share :math:`\mathbf S`."""
        return self.targets.mean(axis=0)

    @property
    def constants(self) -> Constants:
        r"""The least constants (:eq:`eq:ls-constants`)."""
        s = self.feature_variance
        spread = self.targets - self.minimiser
        return Constants(
            smoothness=s.max(),
            A1=s.sum() / s.min() + 1,
            A2=self.label_noise**2 * s.sum(),
            C1=0.0,
            C2=np.sum((s * spread) ** 2, axis=1).mean(),
            f_star=float(self.loss(self.minimiser)),
        )

    def loss(self, model: FloatArray) -> FloatArray:
        r"""Return :math:`f(\boldsymbol\theta)`, the mean of the devices' losses, for models of shape (..., d)."""
        offset = model[..., None, :] - self.targets
        squares = np.sum(self.feature_variance * offset**2, axis=-1)
        return (np.mean(squares, axis=-1) + self.label_noise**2) / 2

    def gradient(self, model: FloatArray) -> FloatArray:
        r"""Return :math:`\mathbf S(\boldsymbol\theta - \bar{\boldsymbol\tau})`, the gradient, shape (..., d)."""
        return self.feature_variance * (model - self.minimiser)

    def draw(
        self, rng: np.random.Generator, runs: int, size: int
    ) -> tuple[FloatArray, FloatArray]:
        """Local data sets of ``size`` samples: features (runs, M, size, d) and labels (runs, M, size)."""
        shape = (runs, self.targets.shape[0], size)
        features = np.sqrt(self.feature_variance) * rng.standard_normal(
            shape + self.feature_variance.shape
        )
        labels = (features @ self.targets[..., None])[
            ..., 0
        ] + self.label_noise * rng.standard_normal(shape)
        return features, labels


def empirical_constants(features: FloatArray, labels: FloatArray) -> Constants:
    r"""Return the constants when the data are fixed and :math:`f_m` is the mean loss over the samples of device m.

    Within a device the mean square of the sample noise is a quadratic :math:`\mathbf v^\top \mathbf P \mathbf v +
    2 \mathbf j^\top \mathbf v + j_0` in the gradient :math:`\mathbf v = \nabla f_m`.  :math:`A_1` is 1.25 times
    the largest eigenvalue of :math:`\mathbf P` over all devices, and :math:`A_2` the least offset that then suffices,
    :math:`j_0 + \mathbf j^\top (A_1 \mathbf I - \mathbf P)^{-1} \mathbf j`.  Likewise :math:`C_1` and :math:`C_2`.

    Features (M, n, d) and labels (M, n); every device's samples must span all d directions.
    """
    _, n, d = features.shape
    hessian = np.einsum("mid,mie->mde", features, features) / n
    moment = np.einsum("mid,mi->md", features, labels) / n
    best = np.linalg.solve(hessian, moment[..., None])
    residual = (features @ best)[..., 0] - labels
    square = np.sum(features**2, axis=-1)
    inverse = np.linalg.inv(hessian)
    quartic = np.einsum("mi,mid,mie->mde", square, features, features) / n
    tilted = np.einsum("mi,mid->md", square * residual, features) / n
    A1, A2 = _dominate(
        inverse @ quartic @ inverse - np.eye(d),
        np.einsum("mde,me->md", inverse, tilted),
        np.mean(square * residual**2, axis=1),
    )
    mean = hessian.mean(axis=0)
    minimiser = np.linalg.solve(mean, moment.mean(axis=0))
    tilt = (hessian - mean) @ np.linalg.inv(mean)
    shift = hessian @ minimiser - moment
    C1, C2 = _dominate(
        np.einsum("mde,mdf->ef", tilt, tilt) / len(tilt),
        np.einsum("mde,md->e", tilt, shift) / len(tilt),
        np.mean(np.sum(shift**2, axis=1)),
    )
    f_star = np.mean((features @ minimiser - labels) ** 2) / 2
    return Constants(np.linalg.eigvalsh(hessian).max(), A1, A2, C1, C2, float(f_star))


def _dominate(P, r, c):
    """Slope and offset of an isotropic quadratic above all of v'Pv + 2 r'v + c."""
    slope = 1.25 * np.linalg.eigvalsh(P).max()
    rest = np.linalg.pinv(slope * np.eye(r.shape[-1]) - P)
    return slope, np.max(c + np.einsum("...d,...de,...e->...", r, rest, r))
