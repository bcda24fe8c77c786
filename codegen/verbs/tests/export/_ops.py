"""The operators of the package, as PyTorch's dispatcher knows them.

Made by `cargo ops export torch`. A name ends with a hash of its row, because compilers keep what they made of an
operator by its name.
"""

import os

from ._runtime import Library, Operators

operators = Operators("ten", Library(os.path.join(os.path.dirname(__file__), "libten.so")))

squareplus = operators.row("squareplus", "squareplus_7e08544c", '(Tensor x, float b=4.0) -> Tensor', "TF")
energy = operators.row("energy", "energy_a700620d", '(Tensor x, int[1]? dims=None, bool keepdim=False) -> Tensor', "TlB", autocast="fp32")
extent = operators.row("extent", "extent_f076c2e9", '(Tensor x, int dim) -> (Tensor low, Tensor high)', "TI")
take_or_zero = operators.row("take_or_zero", "take_or_zero_7d4b443f", '(Tensor x, Tensor index, int dim) -> Tensor', "TTI")
blend = operators.row("blend", "blend_9e3d126d", '(Tensor x, Tensor y, Tensor? weight=None) -> Tensor', "TTt", autocast="promote")
add_all = operators.row("add_all", "add_all_79141189", '(Tensor[] xs) -> Tensor', "X", autocast="fp32")
jitter = operators.row("jitter", "jitter_819da7b8", '(Tensor x, Tensor key, float scale=0.5) -> Tensor', "TTF")
bend = operators.row("bend", "bend_192ffa5a", '(Tensor x, str mode="line", float slope=0.1) -> Tensor', "TSF", autocast="fp32")
same_sign = operators.row("same_sign", "same_sign_4197059d", '(Tensor x, Tensor y) -> Tensor', "TT", autocast="promote")
windows_mean = operators.row("windows_mean", "windows_mean_43edc7ab", '(Tensor x, SymInt width) -> Tensor', "TZ", autocast="fp32")
