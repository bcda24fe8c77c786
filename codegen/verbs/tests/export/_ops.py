"""The operators of the package, as PyTorch's dispatcher knows them.

Made by `cargo ops export torch`. A name ends with a hash of its row, because compilers keep what they made of an
operator by its name.
"""

import os

from ._runtime import Operators, TorchLibrary

_rows = Operators("ten", TorchLibrary(os.path.join(os.path.dirname(__file__), "libten.so")))

squareplus = _rows.row("squareplus", "squareplus_32a53dcf", '(Tensor x, float b=4.0) -> Tensor', "TF")
energy = _rows.row("energy", "energy_f3d5b505", '(Tensor x, int[1]? dims=None, bool keepdim=False) -> Tensor', "TlB", autocast="fp32")
extent = _rows.row("extent", "extent_879d522e", '(Tensor x, int dim) -> (Tensor low, Tensor high)', "TI")
take_or_zero = _rows.row("take_or_zero", "take_or_zero_9d688503", '(Tensor x, Tensor index, int dim) -> Tensor', "TTI")
blend = _rows.row("blend", "blend_65d69c30", '(Tensor x, Tensor y, Tensor? weight=None) -> Tensor', "TTt", autocast="promote")
add_all = _rows.row("add_all", "add_all_73901d4f", '(Tensor[] xs) -> Tensor', "X", autocast="fp32")
jitter = _rows.row("jitter", "jitter_e83ec704", '(Tensor x, Tensor key, float scale=0.5) -> Tensor', "TKF")
bend = _rows.row("bend", "bend_abdf8f9b", '(Tensor x, str mode="line", float slope=0.1) -> Tensor', "TSF", autocast="fp32")
same_sign = _rows.row("same_sign", "same_sign_90c2e65b", '(Tensor x, Tensor y) -> Tensor', "TT", autocast="promote")
windows_mean = _rows.row("windows_mean", "windows_mean_1979f3f4", '(Tensor x, SymInt width) -> Tensor', "TZ", autocast="fp32")
