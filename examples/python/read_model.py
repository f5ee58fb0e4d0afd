#!/usr/bin/env python3
"""Reads a model of nerf-engine and prints the density at a point (docs/use/files.md). Needs numpy.

python3 read_model.py model.safetensors X Y Z        the point in the data set's own frame
"""
import json
import sys

import numpy as np

PRIMES = np.array([1, 2654435761, 805459861], np.uint32)


class Model:
    def __init__(self, path):
        data = open(path, "rb").read()
        start = 8 + int.from_bytes(data[:8], "little")
        header = json.loads(data[8:start])
        self.metadata = header.pop("__metadata__")
        types = {"F16": "<f2", "F32": "<f4", "U8": "u1", "I32": "<i4"}
        self.tensors = {name: np.frombuffer(data[start:][slice(*tensor["data_offsets"])],
                                            types[tensor["dtype"]]).reshape(tensor["shape"])
                        for name, tensor in header.items()}
        self.own_to_training = self.numbers("scene.own_to_training").reshape(3, 4)
        # Of coordinates of a map; own positions count from it.
        self.origin = np.array(self.metadata.get("scene.origin", "0 0 0").split(), float)
        low, high = self.numbers("scene.box_min"), self.numbers("scene.box_max")
        self.center, self.half = (low + high) / 2, (high[0] - low[0]) / 2
        self.n_boxes = int(self.metadata["scene.n_levels"])
        contraction = self.metadata.get("setting.contraction", "none")
        assert contraction in ("auto", "none", "perspective"), contraction
        self.in_perspective = contraction == "perspective"
        self.shift = np.log(2 * self.half / self.numbers("setting.initial_density")[0])
        self.table = self.tensors["field.hash_table"].astype(np.float32)
        n, finest = len(self.table), int(self.metadata["setting.finest_resolution"])
        ratio = (finest << (0 if self.in_perspective else self.n_boxes - 1)) / 16
        self.resolutions = [int(16 * ratio ** (level / (n - 1)) + 1e-6) for level in range(n)]

    def numbers(self, key):
        return np.array(self.metadata[key].split(), np.float32)

    def layer(self, name, inputs):
        return inputs @ self.tensors["field." + name].astype(np.float32).T

    def unit_cube(self, points):
        if not self.in_perspective:
            return (points - self.center) / (self.half * 2 ** self.n_boxes) + 0.5
        numbers = self.numbers("scene.frustum")
        near, slope = numbers[:2]
        along = (points - numbers[2:5]) @ numbers[5:].reshape(3, 3).T  # right, up, forward
        depth = np.maximum(along[:, 2:], near)
        return np.hstack([along[:, :2] / (2 * slope * depth) + 0.5, (1 - near / depth) / 2])

    def encode(self, points):
        unit = np.clip(self.unit_cube(points), 0, 1)
        features = []
        for table, cells in zip(self.table, self.resolutions):
            cell = np.minimum(np.floor(unit * cells), cells - 1)
            far_weights, total = unit * cells - cell, 0
            for corner in range(8):
                far = np.array([corner & 1, corner >> 1 & 1, corner >> 2])
                at = (cell + far).astype(np.uint32)
                if (cells + 1) ** 3 <= table.shape[0]:
                    entries = at @ np.array([1, cells + 1, (cells + 1) ** 2], np.uint32)
                else:
                    entries = np.bitwise_xor.reduce(at * PRIMES, axis=1) & (table.shape[0] - 1)
                weights = np.where(far, far_weights, 1 - far_weights).prod(axis=1, keepdims=True)
                total = total + weights * table[entries]
            features.append(total)
        return np.concatenate(features, axis=1).astype(np.float32)

    def density(self, points):
        """points [n, 3], training frame. Density [n] and the 16 inputs of the color MLP."""
        hidden = np.maximum(self.layer("density_mlp.0", self.encode(points)), 0)
        geometry = self.layer("density_mlp.1", hidden)
        return np.exp(np.minimum(geometry[:, 0] - self.shift, 15)), geometry


if __name__ == "__main__":
    model = Model(sys.argv[1])
    own_to_training = model.own_to_training
    own = np.array(sys.argv[2:5], float) - model.origin
    point = (own_to_training[:, :3] @ own + own_to_training[:, 3])[None]
    print(f"density {model.density(point)[0][0]:.6g} per unit of the training frame")
