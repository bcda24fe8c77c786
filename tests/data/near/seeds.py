"""Calls of PyTorch that the recorded cases lack, for around.py to go near: small, and with every form of a call."""
import random
import torch

CALLS = []
rng = random.Random(5)
i64, f64, f32, u8 = torch.int64, torch.float64, torch.float32, torch.uint8


def S(op, *args, **kwargs):
    CALLS.append((op, list(args), kwargs))


def r(*shape, lo=-2.0, hi=2.0, dtype=f64):
    n = 1
    for s in shape:
        n *= s
    return torch.tensor([round(rng.uniform(lo, hi) * 8) / 8 for _ in range(n)], dtype=dtype).reshape(shape)


def n(*shape, hi=3, lo=0):
    k = 1
    for s in shape:
        k *= s
    return torch.tensor([rng.randrange(lo, hi) for _ in range(k)], dtype=i64).reshape(shape)


F = "torch.nn.functional."
for k in (1, 2, 3):
    x, w, wt = r(1, 2, *[4, 3, 2][:k]), r(2, 2, *[2, 2, 1][:k]), r(2, 2, *[2, 1, 2][:k])
    S(F + f"conv{k}d", x, w)
    S(F + f"conv{k}d", x, w, r(2), 2, 1, 1, 1)
    S(F + f"conv{k}d", x, w, None, [2] * k, [1] * k, [1] * k)
    S(F + f"conv{k}d", x, w, stride=1, padding="same")
    S(F + f"conv{k}d", x, w, stride=1, padding="valid", dilation=1)
    S(F + f"conv{k}d", r(1, 4, *[3, 2, 2][:k]), r(2, 2, *[2, 2, 1][:k]), groups=2, dilation=[1] * k)
    S(F + f"conv_transpose{k}d", x, wt)
    S(F + f"conv_transpose{k}d", x, wt, r(2), 2, 1, 1, 1, 1)
    S(F + f"conv_transpose{k}d", x, wt, None, [2] * k, [0] * k, [1] * k, dilation=[1] * k)
    S(F + f"conv_transpose{k}d", x[0], wt, stride=3, output_padding=2)
    y = r(1, 2, *[5, 4, 3][:k])
    for extra in ({}, {"return_indices": True}, {"return_indices": False}):
        S(F + f"max_pool{k}d", y, 2, **extra)
        S(F + f"max_pool{k}d", y, [2] * k, [1] * k, [1] * k, [1] * k, True, **extra)
        S(F + f"max_pool{k}d", y[0], 2, stride=2, padding=1, dilation=1, ceil_mode=True, **extra)
        S(F + f"adaptive_max_pool{k}d", y, 2, **extra)
        S(F + f"adaptive_max_pool{k}d", y, [2] * k, **extra)
        S(F + f"adaptive_max_pool{k}d", y[0], [3, None, 1][:k], **extra)
    S(F + f"adaptive_avg_pool{k}d", y, 2)
    S(F + f"adaptive_avg_pool{k}d", y[0], [None, 3, 2][:k])
    S(F + f"avg_pool{k}d", y, 2)
    S(F + f"avg_pool{k}d", y, [2] * k, [1] * k, [1] * k, True, False)
    S(F + f"avg_pool{k}d", y[0], 2, 3, ceil_mode=True)
    S(F + f"lp_pool{k}d", y, 2.0, 2)
    S(F + f"lp_pool{k}d", y, 3.0, [2] * k, [1] * k, True)
    S(F + f"lp_pool{k}d", y[0], 2, 2, stride=1)
    for mode in ("nearest", "area", "nearest-exact", ["linear", "bilinear", "trilinear"][k - 1]) + (("bicubic",) if k == 2 else ()):
        z = r(1, 1, *[4, 3, 2][:k])
        S(F + "interpolate", z, size=[3] * k, mode=mode)
        S(F + "interpolate", z, scale_factor=2.0, mode=mode)
        S(F + "interpolate", z, scale_factor=[1.5] * k, mode=mode, recompute_scale_factor=True)
        if "linear" in mode or mode == "bicubic":
            S(F + "interpolate", z, size=[5] * k, mode=mode, align_corners=True)
            S(F + "interpolate", z, scale_factor=0.6, mode=mode, align_corners=False)
S(F + "unfold", r(1, 2, 3, 4), 2)
S(F + "unfold", r(1, 2, 4, 3), [2, 1], [1, 2], [1, 0], [2, 1])
S(F + "fold", r(1, 4, 6), [3, 4], 2)
S(F + "fold", r(1, 4, 9), [4, 4], [2, 2], 1, 1, 2)
S(F + "fold", r(4, 6), (3, 4), (2, 2), dilation=1, padding=0, stride=1)
S("aten.im2col.default", r(1, 1, 3, 3), [2, 2], [1, 1], [0, 1], [1, 2])
for b in (None, r(2)):
    S("aten.convolution.default", r(1, 2, 4), r(2, 2, 2), b, [2], [1], [1], False, [0], 1)
    S("aten.convolution.default", r(1, 2, 3, 3), r(2, 1, 2, 2), b, [2], [0], [1], False, [0], 2)
    S("aten.convolution.default", r(1, 2, 3), r(2, 2, 2), b, [2], [1], [2], True, [1], 1)
    S("aten.convolution.default", r(1, 2, 3, 2), r(2, 1, 2, 2), None, [2, 1], [1, 0], [1, 2], True, [1, 0], 2)
for t, g, x, w in ((False, r(1, 2, 2), r(1, 2, 4), r(2, 2, 2)), (True, r(1, 2, 5), r(1, 2, 3), r(2, 2, 2))):
    S("aten.convolution_backward.default", g, x, w, [2], [2], [0 if not t else 0], [1], t, [0], 1, [True, True, True])
S("aten.convolution_backward.default", r(1, 2, 2, 2), r(1, 2, 3, 3), r(2, 1, 2, 2), [2], [1, 1], [0, 0], [1, 1], False, [0, 0], 2, [True, True, False])
S("aten.convolution_backward.default", r(1, 2, 3, 4), r(1, 2, 2, 3), r(2, 1, 2, 2), None, [1, 1], [0, 0], [1, 1], True, [0, 0], 2, [True, False, True])
S("aten.convolution_backward.default", r(1, 2, 5), r(1, 2, 3), r(2, 2, 2), [2], [2], [1], [2], True, [1], 1, [True, True, True])
for mode in ("sum", "mean", "max"):
    S(F + "embedding_bag", n(2, 3, hi=4), r(4, 2), mode=mode)
    S(F + "embedding_bag", n(5, hi=4), r(4, 2), torch.tensor([0, 2, 2]), mode=mode)
    S(F + "embedding_bag", n(5, hi=4), r(4, 2), torch.tensor([0, 3, 5]), mode=mode, include_last_offset=True)
    S(F + "embedding_bag", n(5, hi=4), r(4, 2), torch.tensor([0, 2]), mode=mode, padding_idx=1)
S(F + "embedding_bag", n(2, 3, hi=4), r(4, 2), mode="sum", per_sample_weights=r(2, 3))
S(F + "embedding_bag", n(5, hi=4), r(4, 2), torch.tensor([0, 2]), mode="sum", per_sample_weights=r(5), padding_idx=-1)
S("aten.embedding_backward.default", r(4, 2), n(4, hi=3), 3, 1, False, False)
S("aten.embedding_backward.default", r(2, 2, 2), n(2, 2, hi=3), 3, -1, True, False)
S("aten.embedding_dense_backward.default", r(4, 2), n(4, hi=3), 3, 1, True)
for mask in ([True] * 3, [True, False, True], [False, True, False]):
    S("aten.native_layer_norm_backward.default", r(2, 3), r(2, 3), [3], r(2, 1), r(2, 1, lo=0.5), r(3), r(3), mask)
    S("aten.native_layer_norm_backward.default", r(2, 2, 2), r(2, 2, 2), [2, 2], r(2, 1, 1), r(2, 1, 1, lo=0.5), None, None, mask)
    S("aten.native_layer_norm_backward.default", r(2, 3, dtype=f32), r(2, 3, dtype=f32), [3], r(2, 1, dtype=f32), r(2, 1, lo=0.5, dtype=f32), r(3, dtype=f32), None, mask)
    S("aten.native_group_norm_backward.default", r(2, 4, 2), r(2, 4, 2), r(2, 2), r(2, 2, lo=0.5), r(4), 2, 4, 2, 2, mask)
    S("aten.native_group_norm_backward.default", r(1, 4, 2, 1), r(1, 4, 2, 1), r(1, 2), r(1, 2, lo=0.5), None, 1, 4, 2, 2, mask)
    S("aten.native_batch_norm_backward.default", r(3, 2), r(3, 2), r(2), None, None, r(2), r(2, lo=0.5), True, 1e-5, mask)
    S("aten.native_batch_norm_backward.default", r(2, 2, 2), r(2, 2, 2), None, r(2), r(2, lo=0.5), None, None, False, 0.1, mask)
    S("aten.native_batch_norm_backward.default", r(2, 2, 2), r(2, 2, 2), r(2), r(2), r(2, lo=0.5), r(2), r(2, lo=0.5), False, 0.1, mask)
S("aten.native_layer_norm.default", r(2, 3), [3], r(3), r(3), 1e-2)
S("aten.native_layer_norm.default", r(2, 3), [3], None, None, 0.5)
S("aten.native_group_norm.default", r(2, 4, 2), r(4), r(4), 2, 4, 2, 2, 0.1)
S("aten.native_group_norm.default", r(2, 4, 3), None, None, 2, 4, 3, 4, 1e-5)
S("aten.native_batch_norm.default", r(3, 2), r(2), r(2), None, None, True, 0.1, 0.01)
S("aten.native_batch_norm.default", r(3, 2, 2), None, r(2), r(2), r(2, lo=0.5), False, 0.1, 0.01)
for train in (False, True):
    S(F + "batch_norm", r(3, 2, 2), None if train else r(2), None if train else r(2, lo=0.5), r(2), r(2), train, 0.1, 0.01)
    S(F + "instance_norm", r(2, 2, 3), None if train else r(2), None if train else r(2, lo=0.5), r(2), r(2), train, 0.1, 0.01)
S(F + "batch_norm", r(3, 2), r(2), r(2, lo=0.5))
S(F + "group_norm", r(2, 4, 2), 2, r(4), r(4), 0.01)
S(F + "layer_norm", r(2, 3), [3], r(3), r(3), 0.01)
S(F + "rms_norm", r(2, 3), [3], r(3), 0.01)
S(F + "rms_norm", r(2, 3), [3])
S(F + "local_response_norm", r(2, 4, 3), 3, 0.1, 0.75, 1.0)
for reduce in ("sum", "prod", "mean", "amax", "amin"):
    for inc in (True, False):
        S("torch.scatter_reduce", r(3, 4), 0, n(2, 3), r(2, 3), reduce, include_self=inc)
        S("torch.scatter_reduce", r(3, 4), 1, n(3, 2), r(3, 3), reduce, include_self=inc)
        if reduce != "sum":
            S("torch.index_reduce", r(3, 2), 0, n(4), r(4, 2), reduce, include_self=inc)
            S("aten.index_reduce.default", r(2, 3), 1, n(4), r(2, 4), reduce, include_self=inc)
    S("aten.scatter_reduce.two", r(3, 4), 0, n(2, 3), r(2, 4), reduce)
for op in ("torch.scatter", "torch.scatter_add"):
    S(op, r(3, 4), 0, n(2, 3), r(2, 3))
    S(op, r(3, 4), 1, n(2, 3), r(3, 3))
    S(op, r(3), 0, n(2), r(4))
    S(op, r(), 0, torch.tensor(0), r())
    S(op, r(2, 2, 3), -1, n(2, 1, 2), r(2, 2, 2))
S("torch.scatter", r(3, 4), 0, n(2, 3), 2.5)
S("torch.scatter", r(3, 4), 1, n(2, 3), value=7)
S("torch.scatter", r(3), 0, n(2), src=1.5)
S("torch.gather", r(3, 4), 0, n(2, 3))
S("torch.gather", r(3, 4), 1, n(2, 5), sparse_grad=False)
S("torch.gather", r(3), 0, n(2))
S("torch.gather", r(), 0, torch.tensor(0))
S("torch.take", r(2, 3), n(2, 2, hi=6, lo=-6))
S("aten.take.default", r(2, 3), n(4, hi=6, lo=-6))
S("torch.take_along_dim", r(3, 4), n(3, 2), 1)
S("torch.take_along_dim", r(3, 4), n(1, 4), 0)
S("torch.take_along_dim", r(2, 3), n(4))
for op, sig in (("aten.index_fill.int_Scalar", 2.5), ("aten.index_fill.int_Tensor", r())):
    S(op, r(3, 2), 0, n(2), sig)
    S(op, r(2, 3), -1, n(4, lo=-3), sig)
    S(op, r(3), 0, torch.tensor(1), sig)
S("torch.index_fill", r(3, 2), 0, n(2), 2)
S("torch.index_fill", r(3, 2), 1, n(2, hi=2), r())
S("aten.index_copy.default", r(3, 2), 0, n(2), r(2, 2))
S("torch.index_copy", r(2, 3), 1, torch.tensor([0, 2]), r(2, 2))
S("aten.masked_fill.Tensor", r(2, 3), r(2, 3) > 0, r())
S("aten.masked_fill.Tensor", n(2, 3), r(3) > 0, torch.tensor(4))
S("torch.masked_fill", r(2, 3), r(2, 1) > 0, r())
S("torch.as_strided", r(6), [2, 3], [3, 1])
S("torch.as_strided", r(2, 4), [2, 2], [1, 2], 1)
S("torch.as_strided", r(2, 4), [2, 0], [1, 2], storage_offset=3)
S("aten.replication_pad1d.default", r(1, 2, 3), [1, 2])
S("aten.replication_pad1d.default", r(2, 3), [2, 0])
S("aten.reflection_pad1d.default", r(2, 3), [2, 1])
S("aten.reflection_pad2d.default", r(1, 2, 3), [1, 1, 1, 0])
for mode in ("constant", "reflect", "replicate", "circular"):
    S(F + "pad", r(1, 2, 3), [1, 2], mode)
    S(F + "pad", r(1, 1, 2, 3), [1, 0, 1, 1], mode=mode)
S(F + "pad", r(2, 3), [1, -1, 2, 0], "constant", 1.5)
for op in ("torch.clamp_min", "torch.clamp_max"):
    S(op, r(4), 0.5)
    S(op, r(2, 3), r(3))
S("torch.clamp", r(5), -0.5, 0.5)
S("torch.clamp", r(5), min=0.5)
S("torch.clamp", r(2, 3), r(3, hi=0.0), r(2, 1, lo=0.0))
S("torch.addcmul", r(3), r(3), r(3), value=2)
S("torch.addcdiv", r(3), r(3), r(3, lo=0.5), value=2)
S("torch.logaddexp2", r(3), r(3))
S("torch.logaddexp2", torch.tensor([1.0, float("inf"), -float("inf"), 50.0], dtype=f64), torch.tensor([1.0, 1.0, -float("inf"), -50.0], dtype=f64))
S("torch.sinc", torch.tensor([0.0, 1e-3, 0.01, 0.05, 0.1, 0.2, 0.5, -0.3, 2.0], dtype=f64))
S("torch.sinc", torch.tensor([0.02, -0.08, 0.15], dtype=f64))
S("torch.special.log_ndtr", torch.tensor([-30.0, -5.0, -1.5, -1.0, -0.9, 0.0, 1.0, 3.0], dtype=f64))
S("torch.special.entr", torch.tensor([0.0, 0.5, 1.0, 2.0, -1.0], dtype=f64))
S("torch.special.xlogy", torch.tensor([0.0, 0.5, 0.0, 2.0], dtype=f64), torch.tensor([0.0, 0.5, -1.0, 3.0], dtype=f64))
S("torch.special.xlog1py", torch.tensor([0.0, 0.5, 0.0, 2.0], dtype=f64), torch.tensor([-1.0, 0.5, -2.0, 3.0], dtype=f64))
S("torch.special.xlogy", 2.0, r(3, lo=0.5))
S("torch.special.i1", r(4)), S("torch.special.i1e", r(4)), S("aten.special_i1.default", r(4)), S("aten.special_i1e.default", r(4))
S("torch.lerp", r(6), r(6), 0.3)
S("torch.lerp", r(5), r(5), torch.tensor([0.2, 0.5, 0.7, -0.6, -0.3], dtype=f64))
S("torch.nan_to_num", torch.tensor([float("nan"), float("inf"), -float("inf"), 1.0], dtype=f64))
S("torch.nan_to_num", torch.tensor([float("nan"), float("inf"), -float("inf"), 1.0], dtype=f32), 2.0, 3.0, -4.0)
S("torch.polygamma", 1, r(3, lo=0.5)), S("torch.deg2rad", r(3)), S("torch.rad2deg", r(3)), S("torch.hypot", r(3), r(3))
S("torch.isposinf", r(3)), S("torch.isneginf", r(3)), S("torch.t", r(2, 3)), S("torch.trace", r(2, 3)), S("torch.signbit", r(4))
S("torch.isclose", r(3), r(3), 1e-3, 0.1, True)
S("torch.ldexp", r(3), n(3)), S("torch.logit", r(3, lo=0.1, hi=0.9), 0.2), S("torch.heaviside", r(3), r(3))
S(F + "softshrink", torch.tensor([-1.0, -0.5, 0.0, 0.5, 0.7], dtype=f64), 0.5), S(F + "hardshrink", r(4), 0.5)
S(F + "tanhshrink", r(3)), S(F + "softmin", r(2, 3), 1), S(F + "softmin", r(2, 3), dim=0, dtype=f64)
S(F + "prelu", r(2, 3, 2), r(3)), S(F + "prelu", r(2, 3), r(1)), S(F + "prelu", r(2), r(1)), S("torch.prelu", r(2, 3), r(3)), S("torch.prelu", r(3), r(1))
S("aten._prelu_kernel.default", r(2, 3), r(1, 3))
S(F + "threshold", r(4), 0.5, 2.0), S(F + "celu", r(4), 0.7), S(F + "glu", r(2, 4), 1), S(F + "normalize", r(2, 3), 2.0, 1, 1e-3)
for red in ("none", "mean", "sum"):
    S(F + "cross_entropy", r(3, 4), n(3, hi=4), reduction=red)
    S(F + "cross_entropy", r(3, 4), n(3, hi=4), r(4, lo=0.25), ignore_index=1, reduction=red, label_smoothing=0.2)
    S(F + "cross_entropy", r(2, 3, 2), n(2, 2), reduction=red, label_smoothing=0.1)
    S(F + "cross_entropy", r(3, 4), r(3, 4, lo=0.0), r(4, lo=0.25), reduction=red, label_smoothing=0.3)
    S(F + "cross_entropy", r(2, 3, 2), r(2, 3, 2, lo=0.0), reduction=red)
    S(F + "cross_entropy", r(4), torch.tensor(2), reduction=red)
    S(F + "nll_loss", r(3, 4), n(3, hi=4), r(4, lo=0.25), ignore_index=1, reduction=red)
    S(F + "nll_loss", r(2, 3, 2), n(2, 2), reduction=red)
    S(F + "kl_div", r(2, 3), r(2, 3, lo=0.0), reduction=red)
    S(F + "kl_div", r(2, 3), r(2, 3), reduction=red, log_target=True)
    S(F + "huber_loss", r(4), r(4), reduction=red, delta=0.7)
    S(F + "smooth_l1_loss", r(4), r(4), reduction=red, beta=0.5)
    S(F + "gaussian_nll_loss", r(2, 3), r(2, 3), r(2, 3, lo=0.2), True, 1e-3, red)
    S(F + "gaussian_nll_loss", r(2, 3), r(2, 3), r(2, 1, lo=0.2), reduction=red)
    S(F + "poisson_nll_loss", r(3), r(3, lo=0.1, hi=4.0), True, True, reduction=red)
    S(F + "poisson_nll_loss", r(3, lo=0.2), r(3, lo=0.1, hi=4.0), False, False, None, 1e-3, reduction=red)
    S(F + "binary_cross_entropy", r(3, lo=0.1, hi=0.9), r(3, lo=0.0, hi=1.0), r(3, lo=0.2), reduction=red)
    S(F + "binary_cross_entropy_with_logits", r(2, 3), r(2, 3, lo=0.0, hi=1.0), r(3, lo=0.2), reduction=red, pos_weight=r(3, lo=0.2))
    S(F + "hinge_embedding_loss", r(4), torch.tensor([1.0, -1.0, 1.0, -1.0], dtype=f64), 0.7, reduction=red)
    S(F + "soft_margin_loss", r(4), torch.tensor([1.0, -1.0, 1.0, -1.0], dtype=f64), reduction=red)
    S(F + "margin_ranking_loss", r(4), r(4), torch.tensor([1.0, -1.0, 1.0, -1.0], dtype=f64), 0.3, reduction=red)
    S(F + "cosine_embedding_loss", r(3, 2), r(3, 2), torch.tensor([1.0, -1.0, 1.0], dtype=f64), 0.1, reduction=red)
    S(F + "triplet_margin_loss", r(2, 3), r(2, 3), r(2, 3), 0.5, 2.0, 1e-3, True, reduction=red)
S(F + "kl_div", r(2, 3), r(2, 3, lo=0.0), reduction="batchmean")
S("aten.nll_loss_backward.default", r(), r(3, 4), n(3, hi=4), r(4), 1, 1, torch.tensor(2.0, dtype=f64))
S("aten.nll_loss_backward.default", r(3), r(3, 4), n(3, hi=4), None, 0, -100, torch.tensor(3.0, dtype=f64))
S("aten.nll_loss_backward.default", r(), r(4), torch.tensor(1), r(4), 2, -100, torch.tensor(3.0, dtype=f64))
S("aten._log_softmax_backward_data.default", r(2, 3), r(2, 3), 1, f64)
S("aten._softmax_backward_data.default", r(2, 3), r(2, 3), 1, f64)
S("aten._adaptive_avg_pool2d_backward.default", r(1, 2, 2, 3), r(1, 2, 3, 4))
S("aten._adaptive_avg_pool2d_backward.default", r(2, 2, 2), r(2, 4, 3))
S("aten._adaptive_avg_pool3d_backward.default", r(1, 2, 2, 1, 2), r(1, 2, 3, 2, 2))
S("aten.native_dropout_backward.default", r(4), torch.tensor([True, False, True, True]), 2.0)
S("aten.gelu_backward.default", r(3), r(3)), S("aten.gelu_backward.default", r(3), r(3), approximate="tanh")
S("aten.threshold_backward.default", r(4), r(4), 0.5), S("aten.tanh_backward.default", r(3), r(3)), S("aten.sigmoid_backward.default", r(3), r(3)), S("aten.silu_backward.default", r(3), r(3))
S("aten.slice_backward.default", r(2, 2), [2, 5], 1, 1, 5, 2), S("aten.slice_backward.default", r(3), [4], 0, -3, 9, 1), S("aten.select_backward.default", r(2), [2, 3], 1, -1)
for op in ("aten.upsample_nearest2d.default", "aten.upsample_bilinear2d.default", "aten.upsample_bicubic2d.default"):
    ac = [] if "nearest" in op else [False]
    S(op, r(1, 2, 3, 2), [5, 4], *ac), S(op, r(1, 2, 3, 2), [5, 4], *ac, 1.7, 2.1), S(op, r(1, 2, 4, 3), [2, 2], *([True] if ac else []))
    S(op.replace(".default", ".vec"), r(1, 2, 3, 2), [5, 4], *ac, None), S(op.replace(".default", ".vec"), r(1, 2, 3, 2), None, *ac, [1.5, 2.0])
for op in ("aten.upsample_nearest2d_backward.default", "aten.upsample_bilinear2d_backward.default"):
    ac = [] if "nearest" in op else [False]
    S(op, r(1, 1, 5, 4), [5, 4], [1, 1, 3, 2], *ac), S(op, r(1, 1, 5, 4), [5, 4], [1, 1, 3, 2], *ac, 1.7, 2.1), S(op, r(1, 1, 2, 2), [2, 2], [1, 1, 4, 3], *([True] if ac else []))
for mode in ("bilinear", "nearest", "bicubic"):
    for pad in ("zeros", "border", "reflection"):
        S(F + "grid_sample", r(1, 1, 3, 4), r(1, 2, 3, 2, lo=-1.5, hi=1.5), mode, pad, False)
        S(F + "grid_sample", r(1, 1, 3, 2), r(1, 2, 2, 2, lo=-1.5, hi=1.5), mode, pad, True)
for p in (0, 1):
    S("aten.grid_sampler_2d.default", r(2, 1, 3, 2), r(2, 1, 2, 2, lo=-1.5, hi=1.5), p, 1 - p, p == 1)
A = F + "scaled_dot_product_attention"
S(A, r(1, 2, 3), r(1, 3, 3), r(1, 3, 2)), S(A, r(1, 2, 3), r(1, 4, 3), r(1, 4, 2), r(2, 4)), S(A, r(1, 3, 2), r(1, 3, 2), r(1, 3, 2), None, 0.0, True)
S(A, r(1, 2, 3), r(1, 3, 3), r(1, 3, 2), r(2, 3) > 0, scale=0.3), S(A, r(1, 4, 2, 2), r(1, 2, 3, 2), r(1, 2, 3, 2), enable_gqa=True), S(A, r(1, 2, 2), r(1, 2, 2), r(1, 2, 2), is_causal=True, scale=2.0)
S("torch.cross", r(2, 3), r(2, 3)), S("torch.cross", r(3, 2), r(3, 2), 0), S("torch.linalg.cross", r(2, 3), r(1, 3)), S("torch.linalg.cross", r(3, 2), r(3, 2), dim=0)
S("torch.bucketize", r(2, 2), r(3).sort().values), S("torch.bucketize", 0.5, r(3).sort().values, right=True), S("torch.bucketize", r(3), r(4).sort().values, out_int32=True)
for kw in ({}, {"right": True}, {"side": "left"}, {"side": "right"}, {"out_int32": True}, {"out_int32": True, "side": "right"}, {"out_int32": True, "right": True}):
    S("torch.searchsorted", r(4).sort().values, r(2, 2), **kw), S("torch.searchsorted", r(2, 4).sort(-1).values, r(2, 3), **kw), S("torch.searchsorted", r(4).sort().values, 0.5, **kw)
x = r(4)
S("torch.searchsorted", x, r(3), sorter=x.argsort())
S("torch.searchsorted", x, r(3), sorter=x.argsort(), right=True, side="right", out_int32=True)
for op in ("torch.norm", "torch.linalg.norm", "torch.linalg.vector_norm"):
    S(op, r(2, 3)), S(op, r(2, 3), 3.0, 1), S(op, r(2, 3), 1, 0, True), S(op, r(3), float("inf"))
for o in ("fro", 1, -1, float("inf"), -float("inf")):
    S("torch.linalg.matrix_norm", r(2, 3), o), S("torch.linalg.matrix_norm", r(2, 3, 2), o, (0, 2), True), S("torch.linalg.matrix_norm", r(2, 3, 2), o, dim=(-1, 0), keepdim=False), S("torch.linalg.norm", r(2, 3), o, (0, 1)), S("torch.norm", r(2, 3), o, (0, 1), True)
S("torch.cov", r(3, 4)), S("torch.cov", r(3, 4), correction=0, fweights=n(4, lo=1), aweights=r(4, lo=0.25)), S("torch.cov", r(4), fweights=n(4, lo=1)), S("torch.corrcoef", r(3, 4)), S("torch.corrcoef", r(4)), S("torch.corrcoef", n(2, 4))
S("torch.diff", r(3, 4)), S("torch.diff", r(5), 2), S("torch.diff", r(5), 3), S("torch.diff", r(3, 4), 1, 0, r(1, 4), r(2, 4)), S("torch.diff", r(3, 4), n=2, dim=1, append=r(3, 1)), S("torch.diff", r(3, 4) > 0)
S("torch.diag_embed", r(2, 3)), S("torch.diag_embed", r(2, 3), 1, 0, 2), S("torch.diag_embed", r(3), -1), S("torch.diagonal", r(3, 4), 1), S("torch.diagonal", r(2, 3, 4), -1, 0, 2), S("torch.diag", r(3), 1), S("torch.diag", r(3, 4), -1)
S("torch.tensordot", r(2, 3), r(3, 4), 1), S("torch.tensordot", r(2, 3), r(2, 3), 2), S("torch.tensordot", r(2, 3, 4), r(4, 3), ([1, 2], [1, 0])), S("torch.tensordot", r(2, 3), r(4), 0), S("torch.tensordot", r(2, 3), r(3, 2), dims=([1], [0]))
S("torch.rot90", r(2, 3)), S("torch.rot90", r(2, 3), 2, [0, 1]), S("torch.rot90", r(2, 3), -1, [1, 0]), S("torch.rot90", r(2, 3, 2), 3, [1, 2]), S("torch.roll", r(2, 3), 1), S("torch.roll", r(2, 3), [1, 2], [0, 1]), S("torch.roll", r(2, 3), -1, 1)
S("torch.tensor_split", r(7), 3), S("torch.tensor_split", r(2, 7), [2, 5], 1), S("torch.tensor_split", r(7), torch.tensor([2, 5])), S("torch.split", r(7), 3), S("torch.split", r(2, 7), 2, 1), S("torch.split", r(0), 0), S("torch.chunk", r(7), 3), S("torch.chunk", r(2, 7), 2, 1)
for op in ("torch.hstack", "torch.vstack", "torch.dstack", "torch.column_stack", "torch.row_stack"):
    S(op, [r(3), r(3)]), S(op, [r(2, 3), r(2, 3)]), S(op, [r(), r()]), S(op, [r(2, 3, 2), r(2, 3, 2)])
S("torch.trapezoid", r(2, 4)), S("torch.trapezoid", r(2, 4), dx=0.5), S("torch.trapezoid", r(2, 4), r(4)), S("torch.trapezoid", r(3, 2), r(3, 2), dim=0), S("torch.trapezoid", n(5), dx=2), S("torch.cumulative_trapezoid", r(2, 4), dx=0.5, dim=0)
S("torch.logspace", 0, 2, 4), S("torch.logspace", 0.0, 1.0, 3, 3.0, dtype=f64), S("torch.linspace", 0, 1, 5), S("torch.linspace", 3.0, -2.0, 4, dtype=f64), S("torch.eye", 3, 2), S("torch.eye", 2, dtype=i64), S("torch.arange", 1, 7, 2), S("torch.arange", 1.0, 2.0, 0.3, dtype=f64), S("torch.zeros", 2, 3), S("torch.zeros", [2, 3], dtype=i64), S("torch.ones", 2, 3), S("torch.ones", (2,))
S("torch.std", r(2, 3), 1), S("torch.std", r(2, 3), dim=0, correction=0, keepdim=True), S("torch.std", r(2, 3), True), S("torch.std", r(2, 3), 0, False, True), S("torch.var", r(2, 3), [0, 1], correction=2), S("torch.var", r(2, 3)), S("torch.var_mean", r(2, 3), 1), S("torch.std_mean", r(2, 3), [0], correction=0, keepdim=True), S("aten.std_mean.correction", r(2, 3), [1], correction=0, keepdim=True), S("aten.var_mean.correction", r(2, 3), None)
for op in ("torch.nansum", "torch.nanmean", "torch.sum", "torch.mean"):
    S(op, r(2, 3)), S(op, r(2, 3), 1, True), S(op, r(2, 3), [0, 1], dtype=f32), S(op, r(2, 3), 0, False, dtype=f64), S(op, r(2, 3), ())
S("torch.prod", r(2, 3), 1, True), S("torch.prod", n(2, 3), 1, dtype=f64), S("torch.all", r(2, 3) > 0, 1, True), S("torch.any", r(2, 3) > 0, 1, True), S("torch.median", r(2, 3), 1, True), S("torch.median", r(5)), S("torch.nanmedian", r(5)), S("torch.mode", n(2, 5), 1, True), S("torch.mode", torch.tensor([3, 1, 3, 1, 2])), S("torch.mode", torch.tensor([[2.0, 1.0, 2.0, 1.0, 1.0, 2.0], [0.0, 5.0, 5.0, 4.0, 4.0, 5.0]])), S("torch.kthvalue", r(5), 2), S("torch.kthvalue", r(2, 3), 1, 0, True)
for op in ("torch.argmax", "torch.argmin"):
    S(op, r(2, 3)), S(op, r(2, 3), 1, True), S(op, r(2, 3), dim=0)
S("torch.amax", r(2, 3), [0, 1]), S("torch.amin", r(2, 3), 1, True), S("torch.amax", r(2, 3), ()), S("torch.aminmax", r(2, 3), dim=1, keepdim=True), S("torch.aminmax", r(2, 3)), S("torch.logsumexp", r(2, 3), 1, True), S("torch.logsumexp", torch.tensor([[1.0, -float("inf")], [float("inf"), 0.0], [-float("inf"), -float("inf")]], dtype=f64), 1)
for d in (0, 1, -1):
    for flag in (True, False):
        S("aten.sort.stable", n(2, 4), stable=True, dim=d, descending=flag), S("torch.sort", n(2, 4), dim=d, descending=flag, stable=True), S("torch.min", r(2, 3).round(), d, flag), S("torch.max", r(2, 3).round(), d, flag)
S("torch.dot", r(3), r(3)), S("torch.vdot", r(3), r(3)), S("torch.linalg.vecdot", r(2, 3), r(2, 3)), S("torch.linalg.vecdot", r(2, 3), r(3), dim=1), S("torch.matmul", r(3), r(3, 2)), S("torch.matmul", r(2, 3), r(3)), S("torch.matmul", r(2, 2, 3), r(3, 2)), S("torch.addr", r(2, 3), r(2), r(3), beta=2, alpha=0.5), S("torch.baddbmm", r(2, 2, 2), r(2, 2, 3), r(2, 3, 2), beta=0.5, alpha=2), S("torch.baddbmm", n(2, 2, 2), n(2, 2, 3), n(2, 3, 2), beta=2, alpha=3), S("torch.addmm", r(2, 2), r(2, 3), r(3, 2), beta=0, alpha=1), S("torch.mv", r(2, 3), r(3)), S("torch.addmv", r(2), r(2, 3), r(3)), S("torch.chain_matmul", r(2, 3), r(3, 2))
S(F + "linear", r(2, 3), r(4, 3), r(4)), S(F + "bilinear", r(2, 3), r(2, 2), r(4, 3, 2), r(4)), S(F + "bilinear", r(3), r(2), r(2, 3, 2)), S(F + "cosine_similarity", r(2, 3), r(2, 3), 1, 0.1), S(F + "cosine_similarity", r(2, 3), r(3), 0), S(F + "pairwise_distance", r(2, 3), r(2, 3), 3.0, 1e-3, True), S("torch.cdist", r(2, 3), r(4, 3), 1.0), S("torch.pdist", r(4, 2), 3.0), S(F + "pdist", r(4, 2)), S(F + "pdist", r(3, 2), 0.0), S(F + "pdist", r(3, 2), float("inf")), S("torch.pdist", r(3, 2), 1.0)
for op in ("aten.add.Tensor", "aten.sub.Tensor", "aten.rsub.Tensor"):
    S(op, r(3), r(3), alpha=2), S(op, n(3), n(3), alpha=2), S(op, n(3), n(3), alpha=2.5), S(op, r(3), n(3), alpha=1.5), S(op.replace("Tensor", "Scalar"), r(3), 2, 3), S(op.replace("Tensor", "Scalar"), n(3), 2, 3)
S("aten.div.Tensor_mode", r(3), r(3, lo=0.5), rounding_mode="floor"), S("aten.div.Tensor", r(3), r(3, lo=0.5)), S("aten.fill.Scalar", r(3), 2.5), S("aten.arange.default", 5), S("aten.arange.start_step", 1, 7, 2), S("torch.meshgrid", r(2), r(3), indexing="ij"), S("torch.meshgrid", r(2), r(3), indexing="xy"), S("torch.meshgrid", [r(2), r(3)]), S("torch.meshgrid", r(2), n(3), indexing="xy")
S("torch.equal", r(3), r(3)), S("torch.allclose", r(3), r(3), 1e-3, 0.1, True), S("aten._local_scalar_dense.default", r()), S("aten._local_scalar_dense.default", r(1, 1)), S("aten.sym_size.int", r(2, 3), 1), S("aten.sym_numel.default", r(2, 3)), S("aten.scalar_tensor.default", 2.5, dtype=f64), S("aten.scalar_tensor.default", 3)
S("torch.slice_scatter", r(5, 2), r(2, 2), 0, 1, 5, 2), S("torch.slice_scatter", r(2, 5), r(2, 2), 1, -2), S("torch.select_scatter", r(3, 2), r(2), 0, 1), S("torch.renorm", r(3, 2), 2.0, 0, 1.5), S("torch.renorm", r(2, 3), 1.0, -1, 0.5), S("torch.repeat_interleave", r(3), 2), S("torch.repeat_interleave", r(2, 3), torch.tensor([1, 2, 0]), 1), S("torch.repeat_interleave", r(2, 2), 2, 1), S(F + "channel_shuffle", r(1, 4, 2), 2), S("torch.index_put", r(3, 2), [n(2), None], r(2, 2)) if False else None
S("aten.index_put.default", r(3, 4), [n(2)], r(2, 4)), S("aten.index_put.default", r(3, 4), [n(2), n(2)], r(2), True), S("aten.index_put.default", r(3, 4), [r(3) > 0], r()), S("aten.index_put.default", r(3, 4), [r(3, 4) > 0], r()), S("aten.index.Tensor", r(3, 4), [n(2), None]), S("aten.index.Tensor", r(3, 4), [None, n(2, lo=-4)]), S("torch.cummax", r(2, 4), 1), S("torch.logcumsumexp", r(2, 4), 1), S("torch.cumprod", r(2, 4), 0), S("torch.cat", [r(2, 3), r(1, 3)], 0), S("torch.stack", [r(2), r(2)], 1), S("torch.stack", []), S("torch.cat", [])
