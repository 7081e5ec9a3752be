"""SciPy's `signal` for recorded values: linear systems, and parts that SciPy's own code calls."""

from __future__ import annotations

import functools
import importlib

import numpy as np

from .._core.operations import PUBLIC
from .._core.tensor.pytree import none_traced
from .._core.tensor.trace import fixed, lost_derivative, named, of_own_shape, steered
from .._core.tensor.values import dtype_of, is_complex, is_tensor, shape_of, value_of
from ._copied_code import OWN, converted, copied_class, copy_of, namespace, stands_for
from ._differentiable import OURS, holds, in_package, is_before

# --- linear systems -------------------------------------------------------------------------------
# SciPy's `signal` for recorded values: linear systems of continuous and of discrete time.

_FORMS = {2: "TransferFunction", 3: "ZerosPolesGain", 4: "StateSpace"}


def _choosing(theirs: type, _package: str) -> type:
    """A class of systems, which makes them of the class for their form and time."""
    made = copied_class(theirs)

    def new(cls, *system, **kwargs):
        form = theirs.__name__
        if len(system) == 1 and form in _CONVERSIONS and isinstance(system[0], theirs.__base__):
            return getattr(system[0], _CONVERSIONS[form])()
        if cls is not made:
            return object.__new__(cls)
        if form in ("lti", "dlti"):
            if len(system) not in _FORMS:
                raise ValueError(
                    f"`system` needs to be an instance of `{form}` or have 2, 3 or 4 arguments."
                )
            is_discrete, form = form == "dlti", _FORMS[len(system)]
        else:
            is_discrete = kwargs.get("dt") is not None
        return object.__new__(_concrete(f"{form}{'Discrete' if is_discrete else 'Continuous'}"))

    made.__new__ = new
    return made


#: The method that gives a system in the form of a class.
_CONVERSIONS = {"TransferFunction": "to_tf", "ZerosPolesGain": "to_zpk", "StateSpace": "to_ss"}


@functools.cache
def _concrete(name: str) -> type:
    return copied_class(getattr(importlib.import_module("scipy.signal._ltisys"), name))


@functools.cache
def _prepare() -> None:
    signal = importlib.import_module("tapegrad.scipy.signal")
    for name in ("lti", "dlti", *_CONVERSIONS, "CZT", "ShortTimeFFT", "ZoomFFT"):
        getattr(signal, name)


def of_instance(theirs):
    """What stands for an object of SciPy's; None for one that is used itself."""
    if type(theirs).__module__ not in _PLACES:
        return None
    _prepare()
    copied_class(type(theirs))
    return converted(theirs)


_PLACES = tuple([f"scipy.signal.{one}" for one in ("_ltisys", "_short_time_fft", "_czt")])
#: With more states, the coefficients of their polynomials would have few right digits.
_MOST_STATES = 8


@stands_for("signal._lti_conversion.poly")
def _characteristic(a):
    """The polynomial of a square matrix by Faddeev and LeVerrier, or that with some zeros."""
    if len(shape_of(a)) != 2 or none_traced((a,)):
        return PUBLIC["poly"](a)
    n = shape_of(a)[0]
    if n == 0:
        return np.ones(1)
    if n > _MOST_STATES:
        raise lost_derivative(
            f"tapegrad.scipy.signal: the transfer function of a recorded system of {n} states; "
            f"it has a derivative for up to {_MOST_STATES}",
            a,
        )
    one = np.eye(n, dtype=np.result_type(dtype_of(a), np.float32))
    a, coefficients, power = a.astype(one.dtype), [PUBLIC["asarray"](one[0, 0])], 0.0 * one
    for k in range(1, n + 1):
        power = PUBLIC["matmul"](a, power + coefficients[-1] * one)
        coefficients.append(-np.trace(power) / k)
    return np.stack(coefficients)


@stands_for("signal._ltisys.make_interp_spline")
def _lines(t, u, k):
    """Lines between the rows of `u` at times, for use at others."""

    def at(times):
        columns = [np.interp(times, t, u[:, j]) for j in range(shape_of(u)[1])]
        return np.stack(columns, axis=-1)

    return at


for _name in ("lti", "dlti", *_CONVERSIONS):
    OURS[f"signal.{_name}"] = _choosing


# --- parts of signal ------------------------------------------------------------------------------
# Parts of SciPy's `signal` that its own code calls, most of them compiled: ours in their place.
#
# Peaks and extrema are places in a signal, found from its values: a program finds them anew.

for _name in ("CZT", "ShortTimeFFT", "ZoomFFT"):
    OURS[f"signal.{_name}"] = lambda theirs, _package: copied_class(theirs)
stands_for("signal.windows._windows._namespace")(namespace)


def _theirs(module: str, name: str):
    return getattr(importlib.import_module(f"scipy.signal.{module}"), name)


@stands_for("signal._arraytools._validate_fs")
def _rate(fs, allow_none=True):
    """A sampling frequency, as a number."""
    if not is_tensor(fs):
        return copy_of(_theirs("_arraytools", "_validate_fs"))(fs, allow_none)
    if shape_of(fs):
        raise ValueError("Sampling frequency fs must be a single scalar.")
    return fs if dtype_of(fs) == np.float64 else fs.astype(np.float64)


# --- peaks ----------------------------------------------------------------------------------------

_PEAKS = "signal._peak_finding_utils"


@stands_for("signal._peak_finding._arg_peaks_as_expected")
def _peaks(value):
    """Places of peaks: a vector of integers."""
    if not is_tensor(value):
        return copy_of(_theirs("_peak_finding", "_arg_peaks_as_expected"))(value)
    if dtype_of(value).kind not in "iu":
        raise TypeError("cannot safely cast `peaks` to dtype('intp')")
    if len(shape_of(value)) != 1:
        raise ValueError("`peaks` must be a 1-D array")
    return value


@stands_for(f"{_PEAKS}._local_maxima_1d")
def _local_maxima(x):
    return steered(_places_of_maxima, x)


@of_own_shape
@named("signal.maxima")
def _places_of_maxima(x):
    return _theirs("_peak_finding_utils", "_local_maxima_1d")(np.ascontiguousarray(x))


@stands_for("signal._peak_finding._boolrelextrema")
def _extrema(data, comparator, axis=0, order=1, mode="clip"):
    """Where elements compare so with all neighbours."""
    if int(order) != order or order < 1:
        raise ValueError("Order must be an int >= 1")
    places, found = np.arange(shape_of(data)[axis]), np.ones(shape_of(data), bool)
    main = data.take(places, axis=axis, mode=mode)
    for shift in range(1, order + 1):
        for step in (shift, -shift):
            other = data.take(places + step, axis=axis, mode=mode)
            found = found & comparator(main, other)
    return found


@stands_for("signal._peak_finding._select_by_property")
def _select_by_property(properties, least, most):
    keep = np.ones(shape_of(properties), bool)
    keep = keep if least is None else keep & (least <= properties)
    return keep if most is None else keep & (properties <= most)


@stands_for("signal._peak_finding._select_by_peak_threshold")
def _select_by_threshold(x, peaks, least, most):
    left, right = x[peaks] - x[peaks - 1], x[peaks] - x[peaks + 1]
    keep = _select_by_property(PUBLIC["minimum"](left, right), least, None)
    return keep & _select_by_property(PUBLIC["maximum"](left, right), None, most), left, right


@stands_for(f"{_PEAKS}._select_by_peak_distance")
def _select_by_distance(peaks, priority, distance):
    return steered(_kept_by_distance, peaks, priority, distance)


@named("signal.by_distance")
def _kept_by_distance(peaks, priority, distance):
    select = _theirs("_peak_finding_utils", "_select_by_peak_distance")
    return select(np.ascontiguousarray(peaks, np.intp), priority, float(distance))


@stands_for(f"{_PEAKS}._peak_prominences")
def _prominences(x, peaks, wlen):
    """The heights of peaks above the higher of the lowest points at their sides."""
    left, right = steered(_bases, x, peaks, wlen=int(wlen))
    return x[peaks] - PUBLIC["maximum"](x[left], x[right]), left, right


@named("signal.bases")
def _bases(x, peaks, wlen):
    find = _theirs("_peak_finding_utils", "_peak_prominences")
    return find(np.ascontiguousarray(x), np.ascontiguousarray(peaks, np.intp), wlen)[1:]


@stands_for(f"{_PEAKS}._peak_widths")
def _widths(x, peaks, rel_height, prominences, left_bases, right_bases):
    """The widths of peaks at a height, between two elements at each side."""
    height = x[peaks] - prominences * rel_height
    given = (x, peaks, rel_height, prominences, left_bases, right_bases)
    left, above_left, right, above_right = steered(_edges, *given)
    first = left + _share(height, x[left], x[above_left])
    last = right - _share(height, x[right], x[above_right])
    return last - first, height, first, last


def _share(height, low, high):
    """Where a height is between two elements, from 0 to 1; 0 if it is not above the lower one."""
    is_between = low < height
    slope = PUBLIC["where"](is_between, high - low, 1.0)
    return PUBLIC["where"](is_between, (height - low) / slope, 0.0)


@named("signal.edges")
def _edges(x, peaks, rel_height, prominences, left_bases, right_bases):
    """At each side of a peak, the first element that is not above a height, and the one above."""
    places = [np.ascontiguousarray(one, np.intp) for one in (peaks, left_bases, right_bases)]
    find = _theirs("_peak_finding_utils", "_peak_widths")
    x, prominences = np.ascontiguousarray(x), np.ascontiguousarray(prominences)
    _, height, left, right = find(x, places[0], rel_height, prominences, *places[1:])
    left, right = np.floor(left).astype(np.intp), np.ceil(right).astype(np.intp)
    left -= (x[left] > height) & (left > places[1])  # where the place was rounded
    right += (x[right] > height) & (right < places[2])
    return left, np.minimum(left + 1, len(x) - 1), right, np.maximum(right - 1, 0)


@of_own_shape
@named("signal.ridges")
def _places_of_ridges(vector, widths, *more, **named):
    return _theirs("_peak_finding", "find_peaks_cwt")(vector, widths, *more, **named)


def find_peaks_cwt(vector, widths, *args, **kwargs):
    """The places of peaks by a wavelet transform."""
    return steered(_places_of_ridges, vector, widths, *args, **kwargs)


OURS["signal.find_peaks_cwt"] = find_peaks_cwt


# --- polynomials of older versions ----------------------------------------------------------------


@stands_for("signal._filter_design.npp_polyval")
def _polyval(x, c, tensor=True):
    """A polynomial with coefficients of rising powers along the first axis of `c`."""
    x, c = PUBLIC["asarray"](x), PUBLIC["asarray"](c)
    if tensor and len(x.shape):
        c = c.reshape(*c.shape, *(1,) * len(x.shape))
    made = c[-1] + 0 * x
    for k in range(c.shape[0] - 2, -1, -1):
        made = c[k] + made * x
    return made


@stands_for("signal._filter_design.polyvalfromroots")
@stands_for("signal._filter_design.npp_polyvalfromroots")
def _polyvalfromroots(x, r, tensor=True):
    """A polynomial with the zeros along the first axis of `r`."""
    x, r = PUBLIC["asarray"](x), PUBLIC["asarray"](r)
    if tensor and len(x.shape):
        r = r.reshape(*r.shape, *(1,) * len(x.shape))
    return np.prod(x - r, axis=0)


@stands_for("signal._filter_design.mintypecode")
def _common_type(operands):
    return np.mintypecode([one.dtype.char for one in operands])


# --- splines --------------------------------------------------------------------------------------


@stands_for("signal._spline_filters._cubic")
def _cubic(x):
    """The cubic B-spline of equal distances."""
    x = PUBLIC["absolute"](x)
    outer = PUBLIC["maximum"](2.0 - x, 0.0) ** 3
    return (outer - 4.0 * PUBLIC["maximum"](1.0 - x, 0.0) ** 3) / 6.0


@stands_for("signal._spline_filters._quadratic")
def _quadratic(x):
    """The same of second degree."""
    x = PUBLIC["absolute"](x)
    outer = PUBLIC["maximum"](1.5 - x, 0.0) ** 2
    return (outer - 3.0 * PUBLIC["maximum"](0.5 - x, 0.0) ** 2) / 2.0


def _initial(name: str, at_end: bool = False):
    """The state of a symmetric filter before a signal, which is linear in its first elements."""

    def function(signal, *more):
        if not none_traced(more):
            raise lost_derivative(
                f"tapegrad.scipy.signal: the poles of a symmetric filter ({name}) are recorded; "
                "they have no derivative here, give plain numbers",
                more,
            )
        weights = _weights(name, at_end, shape_of(signal)[-1], dtype_of(signal), more)
        count = len(weights)
        part = signal[:, -count:] if at_end else signal[:, :count]
        return PUBLIC["matmul"](part, weights)

    stands_for(f"signal._spline_filters.{name}")(function)


def _weights(name: str, at_end: bool, n: int, dtype, more) -> np.ndarray:
    """What SciPy's function gives for signals of one element each, as few as it takes."""
    count, theirs = min(n, 64), _theirs("_spline", name)
    while True:
        try:
            return theirs(np.eye(count, dtype=dtype), *more)
        except ValueError:  # its sum takes more elements
            if count == n:
                raise
        count = min(n, 4 * count)


_initial("symiirorder1_ic")
_initial("symiirorder2_ic_fwd")
_initial("symiirorder2_ic_bwd", at_end=True)


@stands_for("signal._spline_filters.symiirorder_nd")
def _along_axis(func, input, *args, axis=-1, **kwargs):
    """A function of rows along any axis of an array."""
    moved = np.moveaxis(input, axis, -1)
    rows = moved.reshape(-1, shape_of(moved)[-1])
    return np.moveaxis(copy_of(func)(rows, *args, **kwargs).reshape(shape_of(moved)), -1, axis)


def sepfir2d(input, hrow, hcol, /):
    """Convolutions along both axes of an image that is continued by mirroring."""
    for axis, weights in ((1, hrow), (0, hcol)):
        (count,) = shape_of(weights) if shape_of(weights) else (1,)
        half = count // 2
        if count % 2 == 0:
            raise ValueError("hrow and hcol must be odd length")
        if 2 * half > shape_of(input)[axis]:  # where SciPy's reads outside of the image
            raise ValueError("sepfir2d takes filters that are not longer than the image")
        moved = np.moveaxis(input, axis, -1)
        moved = PUBLIC["pad"](moved, [(0, 0), (half, half)], "symmetric")
        windows = PUBLIC["sliding_window_view"](moved, count, -1)
        input = np.moveaxis(PUBLIC["matmul"](windows, weights[::-1]), -1, axis)
    return input


OURS["signal.sepfir2d"] = sepfir2d


# --- windows --------------------------------------------------------------------------------------


def get_window(window, Nx, fftbins=True, **named):
    """A window of a name with its parameters, which SciPy's function has checked."""
    _theirs("windows", "get_window")(_plain(window), Nx, fftbins, **named)
    windows = importlib.import_module("tapegrad.scipy.signal.windows")
    if not isinstance(window, tuple):
        return windows.kaiser(Nx, window, not fftbins)
    name, *parameters = window
    table = vars(_theirs("windows", "_windows"))
    found = table["_WIN_FUNCS"] if "_WIN_FUNCS" in table else table["_win_equiv"]
    if name not in found:  # of later versions
        name, _, ending = name.rpartition("_")
        fftbins = ending == "periodic"
    known = found[name]
    known = known[0] if isinstance(known, tuple) else known
    return getattr(windows, known.__name__)(Nx, *parameters, sym=not fftbins)


def _plain(window):
    """The same with plain numbers."""
    if isinstance(window, (tuple, list)):
        return type(window)(map(_plain, window))
    return value_of(window)


OURS["signal.get_window"] = OURS["signal.windows.get_window"] = get_window


@named("signal.overlap_condition")
def _holds(win, name: str, nperseg: int, noverlap: int, tol: float):
    return np.array(
        getattr(importlib.import_module("scipy.signal"), name)(win, nperseg, noverlap, tol)
    )


def _condition(name: str):
    """Whether a window fulfils a condition: an answer, that programs ask for again."""

    def function(window, nperseg, noverlap, tol=1e-10):
        given = {"nperseg": nperseg, "noverlap": noverlap, "tol": tol}
        return bool(fixed(steered(_holds, window, name=name, **given), f"{name}()"))

    OURS[f"signal.{name}"] = function


_condition("check_COLA")
_condition("check_NOLA")


# --- spectra --------------------------------------------------------------------------------------


@stands_for("signal._spectral_py._fft_helper")
def _segments_transformed(x, win, detrend_func, nperseg, noverlap, nfft, sides):
    """The Fourier transforms of segments, without trend and with a window."""
    fft = importlib.import_module("tapegrad.scipy.fft")
    windows = PUBLIC["sliding_window_view"](x, nperseg, -1)
    made = win * detrend_func(windows[..., :: nperseg - noverlap, :])
    return fft.fft(made, n=nfft) if sides == "twosided" else fft.rfft(made.real, n=nfft)


def _slices_transformed(self, x, detr, p0=None, p1=None, *, k_offset=0, padding="zeros", axis=-1):
    """The transforms of all slices together, which SciPy computes one after the other."""
    if self.onesided_fft and is_complex(x):
        raise ValueError(
            f"Complex-valued `x` not allowed for {self.fft_mode=}'! "
            "Set property `fft_mode` to 'twosided' or 'centered'."
        )
    if not (detr is None or isinstance(detr, str) or callable(detr)):
        raise ValueError(f"Parameter {detr=} is not a str, function or None!")
    if padding not in _PADDINGS:
        raise ValueError(f"Parameter {padding=} not in {tuple(_PADDINGS)}!")
    x = x if is_complex(x) or is_tensor(x) else PUBLIC["asarray"](x)
    ndim, n, least = len(x.shape), x.shape[axis], self.m_num - self.m_num_mid
    if n < least:
        raise ValueError(f"{n} samples must be >= ceil(m_num/2) = {least}!")
    p0, p1 = self.p_range(n, p0, p1)
    first = p0 * self.hop - self.m_num_mid + k_offset
    after = first + (p1 - p0) * self.hop + self.m_num
    moved = np.moveaxis(x, axis, -1)[..., max(first, 0) : min(after, n)]
    widths = [(0, 0)] * (ndim - 1) + [(-min(first, 0), max(after - n, 0))]
    wide = np.pad(moved, widths, **_PADDINGS[padding])
    slices = PUBLIC["sliding_window_view"](wide, self.m_num, -1)
    slices = slices[..., :: self.hop, :][..., : p1 - p0, :]
    if isinstance(detr, str):
        slices = importlib.import_module("tapegrad.scipy.signal").detrend(slices, type=detr)
    elif detr is not None:  # a function of one slice
        slices = np.stack([detr(slices[..., k, :]) for k in range(p1 - p0)], axis=-2)
    rows = (slices * PUBLIC["conj"](self.win)).reshape(-1, self.m_num)
    made = self._fft_func(rows).reshape(*slices.shape[:-1], self.f_pts).astype(complex)
    made = np.moveaxis(made, -1, -2)
    return np.moveaxis(made, -2, axis if axis >= 0 else axis - 1) if ndim > 1 else made


OWN["ShortTimeFFT.stft_detrend"] = _slices_transformed
_PADDINGS = {
    "zeros": {"mode": "constant"},
    "edge": {"mode": "edge"},
    "even": {"mode": "reflect", "reflect_type": "even"},
    "odd": {"mode": "reflect", "reflect_type": "odd"},
}


# --- selected formulas ----------------------------------------------------------------------------
# SciPy's `signal` where its code selects a formula at one value, or drops coefficients that are 0.
#
# There its copies would lose derivatives: to a coefficient that is 1, a frequency that is equal to
# another, a numerator's coefficient that is 0.


_entered = in_package("signal")


def _by_copy(name: str):
    return copy_of(getattr(importlib.import_module("scipy.signal"), name))


def _vector(x):
    return PUBLIC["atleast_1d"](PUBLIC["asarray"](x))


@named("signal.zeros_before")
def _count_zeros(x, at_end: bool = False):
    """The number of zeros before the first element that is none, or after the last."""
    is_some = np.flatnonzero(x[::-1] if at_end else x)
    return np.array(is_some[0] if is_some.size else x.size)


def _zeros(x, what: str, at_end: bool = False) -> int:
    return int(fixed(steered(_count_zeros, x, at_end=at_end), what))


# --- states of filters ----------------------------------------------------------------------------


@_entered
def lfilter_zi(b, a):
    b, a = _vector(b), _vector(a)
    if len(shape_of(a)) != 1:
        raise ValueError("Denominator a must be 1-D.")
    a = a[min(_zeros(a, "lfilter_zi()"), shape_of(a)[0] - 1) :]
    return _by_copy("lfilter_zi")(b / a[0], a / a[0])


@_entered
def lfiltic(b, a, y, x=None):
    a = _vector(a)
    if len(shape_of(a)) != 1:
        raise ValueError("Filter coefficients `a` must be 1-D.")
    if not shape_of(a)[0]:
        raise ValueError("There must be at least one `a` coefficient.")
    if holds(a[0] == 0.0, "lfiltic()"):
        raise ValueError("First `a` filter coefficient must be non-zero.")
    if is_before("1.16.0"):  # which divides by nothing
        return _by_copy("lfiltic")(b, a, y, x)
    made = _by_copy("lfiltic")(b, PUBLIC["concatenate"]([np.ones(1, dtype_of(a)), a[1:]]), y, x)
    return made / a[0]


# --- forms of filters -----------------------------------------------------------------------------


@_entered
def lp2hp(b, a, wo=1.0):
    """The filter for the frequency 1, and that scaled: SciPy's has no power of 1."""
    return _by_copy("lp2lp")(*_by_copy("lp2hp")(b, a, 1.0), wo)


@_entered
def bilinear(b, a, fs=1.0):
    b, a = _vector(b), _vector(a)
    for name, x in (("a", a), ("b", b)):
        if len(shape_of(x)) != 1:
            raise ValueError(f"Parameter {name} is not a 1d array since {shape_of(x)=}")
    if fs is None:
        raise ValueError("Sampling frequency can not be none.")
    lengths = [shape_of(x)[0] - _zeros(x, "bilinear()") for x in (b, a)]
    n = max(*lengths, 1)
    scale = PUBLIC["sqrt"](2.0 * PUBLIC["asarray"](fs))
    made = []
    for x in (b, a):
        x = x[max(shape_of(x)[0] - n, 0) :]
        terms = _products(n, shape_of(x)[0])
        powers = 2.0 * np.arange(shape_of(x)[0]) - (n - 1.0)
        made.append(PUBLIC["matmul"](x[::-1] * scale**powers, terms))
    return _by_copy("normalize")(*made)


def _products(n: int, count: int) -> np.ndarray:
    """(z + 1)ⁿ⁻¹⁻ᵏ (z − 1)ᵏ for each k, from the highest power of z on."""
    rows = []
    for k in range(count):
        rows.append(np.poly([-1.0] * (n - 1 - k) + [1.0] * k) * np.ones(n))
    return np.array(rows)


# --- fractions ------------------------------------------------------------------------------------


def _fractions(name: str):
    """Partial fractions, which are linear in the numerator; a row of the result for each unit."""
    at_end = name == "residuez"

    def function(b, a, tol=1e-3, rtype="avg"):
        if not none_traced((a, tol)):
            raise lost_derivative(
                f"tapegrad.scipy.signal.{name}: the denominator or tol is recorded; the fractions "
                "have a derivative to the numerator only, give the others as plain numbers",
                (a, tol),
            )
        theirs, b = getattr(importlib.import_module("scipy.signal"), name), _vector(b)
        n, plain = shape_of(b)[0], np.asarray(value_of(a))
        rows = [theirs(unit, plain, tol, rtype) for unit in np.eye(n)]
        poles, count = rows[0][1], max(len(k) for _, _, k in rows)
        residues = np.array([one for one, _, _ in rows])
        kept = max(count - _zeros(b, f"{name}()", at_end), 0)
        left = [np.r_[k, np.zeros(count - len(k))] for _, _, k in rows]
        if not at_end:
            left = [np.r_[np.zeros(count - len(k)), k] for _, _, k in rows]
        direct = np.reshape(left, (n, count))
        direct = direct[:, :kept] if at_end else direct[:, count - kept :]
        return PUBLIC["matmul"](b, residues), poles, PUBLIC["matmul"](b, direct)

    OURS[f"signal.{name}"] = function


_fractions("residue")
_fractions("residuez")


# --- waves, splines, systems ----------------------------------------------------------------------


@stands_for("signal._waveforms._chirp_phase")
def _chirp_phase(t, f0, t1, f1, method="linear", vertex_zero=True):
    """The phase of a chirp, by a series where the frequencies are equal."""
    theirs = copy_of(importlib.import_module("scipy.signal._waveforms")._chirp_phase)
    is_curved = method in ("logarithmic", "log", "lo", "hyperbolic", "hyp")
    if not is_curved or not holds(PUBLIC["asarray"](f0) == f1, "chirp()"):
        return theirs(t, f0, t1, f1, method, vertex_zero)
    plain = [float(value_of(f)) for f in (f0, f1)]
    theirs(0.0, plain[0], 1.0, plain[1], method)  # which raises an error for some
    part = PUBLIC["asarray"](t) / t1
    if method in ("hyperbolic", "hyp"):
        u = part * (f1 - f0) / f1
        factor = 1.0 + u / 2.0 + u**2 / 3.0
    else:
        v = part * PUBLIC["log"](f1 / f0)
        factor = 1.0 + v / 2.0 + v**2 / 6.0
    return 2.0 * np.pi * f0 * t * factor


@_entered
def cspline1d(signal, lamb=0.0):
    if not none_traced((lamb,)) and holds(PUBLIC["asarray"](lamb) == 0.0, "cspline1d()"):
        raise lost_derivative(
            "tapegrad.scipy.signal.cspline1d: lamb is recorded and 0, where smoothing has no "
            "derivative; give 0 as a plain number",
            lamb,
        )
    return _by_copy("cspline1d")(signal, lamb)


@_entered
def lsim(system, U, T, X0=None, interp=True):
    """With a state that depends on the first time, also where that is 0."""
    if X0 is not None and not none_traced((T,)) and shape_of(T):
        signal = importlib.import_module("tapegrad.scipy.signal")
        linalg = importlib.import_module("tapegrad.scipy.linalg")
        theirs = importlib.import_module("scipy.signal")
        system = system if isinstance(system, theirs.lti) else signal.lti(*system)
        if holds(T[0] == 0.0, "lsim()"):
            a = PUBLIC["asarray"](system._as_ss().A)
            X0 = PUBLIC["matmul"](PUBLIC["asarray"](X0), linalg.expm(a.T * T[0]))
    return _by_copy("lsim")(system, U, T, X0, interp)
