"""What a stream answers to a round."""

from typing import NamedTuple


class Answer(NamedTuple):
    """The answer to a round."""

    round: int
    """Index of the round, from 0."""
    eta: float
    r""":math:`\eta_t` in watts; 0 if the round was skipped."""
    noise_energy: float
    r""":math:`w_t = d \sigma_n^2 / \eta_t`; infinite if the round was skipped."""
    budget_left: float | None
    r""":math:`T \nu - \sum_{i \le t} (w_i - w_{\min,i})`, negative if overdrawn; None if no :math:`\nu` is spent."""
    epsilon: float
    """DP leakage of the rounds so far, the largest over devices, which is proven for every device."""
    epsilon_mean: float
    """The mean over devices of their DP leakage, which is no guarantee."""
    senders: tuple[int, ...] | None = None
    """The devices that send, numbered from 1, if the policy chooses them; none of them if the round is skipped."""

    def line(self) -> str:
        """Return the answer as comma-separated text with all digits, devices separated by blanks, None left out."""
        texts = [repr(value) for value in self[:-1] if value is not None]
        if self.senders is not None:
            texts.append(" ".join(map(str, self.senders)))
        return ",".join(texts)
