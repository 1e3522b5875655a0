"""Muon for matrices, AdamW for the rest, on f32 master tensors."""

import torch
from model.device import DEVICE
from model.parameters import Spec, Tensors, start_values, working_value
from torch import Tensor

MOMENTUM = 0.95
NEWTON_SCHULZ = (3.4445, -4.7750, 2.0315)


def orthogonalized(gradient: Tensor, steps: int = 5) -> Tensor:
    """Return matrices [n, r, c] with singular values near one (Newton-Schulz iteration, bf16)."""
    a, b, c = NEWTON_SCHULZ
    x = gradient.bfloat16()
    tall = x.shape[-2] > x.shape[-1]
    if tall:
        x = x.transpose(-1, -2)
    x = x / (x.float().norm(dim=(-2, -1), keepdim=True) + 1e-7).bfloat16()
    for _ in range(steps):
        square = x @ x.transpose(-1, -2)
        x = a * x + (b * square + c * (square @ square)) @ x
    return x.transpose(-1, -2) if tall else x


class Trainer:
    """Master tensors with their optimizers, and the working tensors that a forward pass uses."""

    def __init__(
        self,
        specs: dict[str, Spec],
        seed: int,
        quantized: bool,
        muon_rate: float = 3e-3,
        decay: float = 0.05,
    ) -> None:
        """Draw start values; `quantized` makes working tensors take the release's values."""
        self.specs = specs
        self.quantized = quantized
        self.muon_rate, self.decay = muon_rate, decay
        masters = {name: value.to(DEVICE) for name, value in start_values(specs, seed).items()}
        self.weights = {
            name: working_value(value, specs[name].storage, quantized).requires_grad_()
            for name, value in masters.items()
        }
        adam = {name: spec.rate for name, spec in specs.items() if spec.rate is not None}
        self._momentum = {
            name: torch.zeros_like(masters[name]) for name in specs if name not in adam
        }
        self._adam = {name: torch.nn.Parameter(masters[name]) for name in adam}
        self.masters: Tensors = masters | {name: p.data for name, p in self._adam.items()}
        groups = [
            {"params": [self._adam[name]], "lr": rate, "full_rate": rate}
            for name, rate in adam.items()
        ]
        self._optimizer = torch.optim.AdamW(
            groups, betas=(0.9, 0.95), eps=1e-10, weight_decay=0.0, fused=DEVICE == "cuda"
        )

    @torch.no_grad()
    def step(self, rate: float) -> None:
        """Update the masters from the working tensors' gradients; `rate` scales all rates."""
        for name, parameter in self._adam.items():
            gradient = self.weights[name].grad
            parameter.grad = None if gradient is None else gradient.to(parameter.dtype)
        for group in self._optimizer.param_groups:
            group["lr"] = group["full_rate"] * rate
        self._optimizer.step()
        for name, momentum in self._momentum.items():
            gradient = self.weights[name].grad
            if gradient is not None:
                self._muon(self.masters[name], momentum, gradient.float(), self.muon_rate * rate)
        self.refresh()

    def _muon(self, master: Tensor, momentum: Tensor, gradient: Tensor, rate: float) -> None:
        """Update matrices [..., r, c] by their orthogonalized momentum."""
        momentum.lerp_(gradient, 1 - MOMENTUM)
        update = gradient.lerp(momentum, MOMENTUM)
        rows, columns = update.shape[-2:]
        update = orthogonalized(update.reshape(-1, rows, columns)).reshape(update.shape).float()
        scale = 0.2 * max(rows, columns) ** 0.5
        master.mul_(1 - rate * self.decay).add_(update, alpha=-rate * scale)

    @torch.no_grad()
    def refresh(self) -> None:
        """Set the working tensors by the masters, and forget their gradients."""
        for name, master in self.masters.items():
            value = working_value(master, self.specs[name].storage, self.quantized)
            self.weights[name].copy_(value)
            self.weights[name].grad = None

    def exported(self) -> Tensors:
        """Return the masters on the CPU."""
        return {name: master.detach().cpu() for name, master in self.masters.items()}
