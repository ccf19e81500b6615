"""Networks that PyTorch exports here and now, cut at their exits; and the page's script, which times one in PyTorch.

PyTorch comes with ``pip install --group exporters``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from builders import COMPILED, blocks, call_fluidb, library, run_shell
from fluidb.machine.network import RealNetwork

pytestmark = [
    pytest.mark.skipif(not COMPILED, reason="nothing here runs a kernel; once is enough"),
    pytest.mark.filterwarnings("ignore"),  # each exporter warns of the other
]


def network(forward, **parts):
    """A module of PyTorch."""
    made = type("Network", (library("torch.nn").Module,), {"forward": forward})()
    for name, part in parts.items():
        setattr(made, name, part)
    return made


def convolutions(torch, nn):
    """The first exit is inside a residual block, and the batch size is read once."""

    def forward(self, x):
        batch = x.shape[0]
        y = self.norm(self.first(x)).relu()
        z = self.second(y).relu()
        return self.near(z.view(batch, -1)).softmax(1), self.far(self.drop(y + z).view(batch, -1))

    parts = {
        "first": nn.Conv2d(3, 8, 3, padding=1), "norm": nn.BatchNorm2d(8), "second": nn.Conv2d(8, 8, 3, padding=1),
        "near": nn.Linear(8 * 64, 5), "drop": nn.Dropout(0.5), "far": nn.Linear(8 * 64, 5),
    }  # fmt: skip
    return network(forward, **parts), (torch.randn(2, 3, 8, 8),)


def sentences(torch, nn):
    """A recurrent layer, then one of a transformer, both with the places of a sentence before its samples."""

    def forward(self, words, about):
        y, _ = self.first(self.words(words).transpose(0, 1) + self.scale(about))
        return self.near(y[-1]), self.far(self.second(y)[0])

    parts = {
        "words": nn.Embedding(50, 16), "scale": nn.Linear(4, 16), "first": nn.LSTM(16, 16),
        "second": nn.TransformerEncoderLayer(16, 2, 32), "near": nn.Linear(16, 5), "far": nn.Linear(16, 5),
    }  # fmt: skip
    return network(forward, **parts), (torch.randint(0, 50, (2, 7)), torch.randn(2, 4))


def words(torch, nn):
    """GPT-2, whose mask is made of sizes."""
    transformers = library("transformers")
    config = transformers.GPT2Config(vocab_size=50, n_embd=16, n_layer=2, n_head=2, n_positions=8, use_cache=False)

    def forward(self, ids, mask):
        found = self.body(input_ids=ids, attention_mask=mask, output_hidden_states=True).hidden_states
        return self.near(found[1][:, -1]), self.far(found[2][:, -1])

    parts = {"body": transformers.GPT2Model(config), "near": nn.Linear(16, 5), "far": nn.Linear(16, 5)}
    return network(forward, **parts), (torch.randint(0, 50, (2, 7)), torch.ones(2, 7, dtype=torch.int64))


@pytest.mark.parametrize(
    ("make", "dynamo"),
    [(convolutions, False), (convolutions, True), (sentences, False), (sentences, True), (words, False)],
)
def test_exported_networks_answer_as_in_pytorch_in_any_batch(tmp_path, make, dynamo):
    torch = library("torch")
    library("onnxscript")
    torch.manual_seed(1)
    model, arguments = make(torch, torch.nn)
    path, names = tmp_path / "net.onnx", [f"x{number}" for number in range(len(arguments))]
    shapes, axes = tuple({0: "n"} for _ in names), {name: [0] for name in names}
    opened = {"dynamic_shapes": shapes} if dynamo else {"dynamic_axes": axes}
    more = {"input_names": names, "output_names": ["e1", "e2"], "verbose": False}
    torch.onnx.export(model.eval(), arguments, path, dynamo=dynamo, **more, **opened)
    samples = [torch.cat([values, values.flip(1), values.roll(1, 1)]) for values in arguments]
    np.savez(tmp_path / "in.npz", **{name: values.numpy() for name, values in zip(names, samples, strict=True)})
    found = RealNetwork(str(path), tmp_path / "in.npz")
    with torch.no_grad():
        expected = model(*samples)
    for answers, values in zip(found.answers, expected, strict=True):
        np.testing.assert_allclose(answers, values.numpy(), rtol=1e-3, atol=1e-4)
    found.warm_up(3)


def test_the_script_of_the_page_measures_pytorch(tmp_path, monkeypatch):
    """Its CSV file is a device on which the exported network is served."""
    torch = library("torch")
    library("onnxscript")
    nn = torch.nn

    def stage(self, x):
        x = self.body(x).relu()
        return self.head(x.mean((2, 3))), x

    def forward(self, x):
        near, x = self.first(x)
        return near, self.second(x)[0]

    first, second = (
        network(stage, body=nn.Conv2d(channels, 8, 3, padding=1), head=nn.Linear(8, 5)) for channels in (3, 8)
    )
    monkeypatch.chdir(tmp_path)
    export, measure, *_ = blocks("docs/real-device.md", "python")
    image, script = torch.randn(1, 3, 8, 8), dict[str, Any]()
    exec(export, {"model": network(forward, first=first, second=second), "image": image})
    exec(measure, script)
    script["write_times"]([first, second], image, 3, rounds=4)
    assert len(Path("times.csv").read_text().splitlines()) == 7
    assert (
        call_fluidb("trace", "poisson", "--rate", 20, "--count", 50, "-o", "digits.csv", cwd=tmp_path).returncode == 0
    )
    printed = run_shell(blocks("docs/real-device.md", "sh")[2], tmp_path)
    assert "requests" in printed
    assert [value.name for value in onnx.load("net.onnx").graph.output] == ["e1", "e2"]
