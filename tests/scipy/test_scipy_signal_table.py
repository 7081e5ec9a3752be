"""SciPy's `signal`, a line or more for each name: values, derivatives, programs, batches, doors."""

import copy
import re

import numpy as np
import pytest
import scipy.signal
from declared import close, difference
from expressions import CHECKS, Expression
from extent import some

import tapegrad as tg
from tapegrad.scipy import fft, signal
from tapegrad.scipy._copied_code import _LATER

SOS = np.array([[0.2, 0.4, 0.2, 1.0, -0.3, 0.1], [1.0, 0.5, 0.3, 1.0, 0.2, 0.3]])
#: Expressions of `s`, the module, and `x`, 24 numbers between 0.3 and 1.9.
TEXTS = {
    "welch": [
        "s.welch(x, nperseg=8)",
        "s.welch(x, x[0], 'hamming', nperseg=7, noverlap=3, detrend='linear', scaling='spectrum')",
        "s.welch(x, nperseg=8, average='median')",
        "s.welch(x.reshape(12, 2), nperseg=6, axis=0, window=x[:6])",
    ],
    "csd": [
        "s.csd(x, x[::-1] ** 2, nperseg=8)",
        "s.csd(x, x[:20], nperseg=8, return_onesided=False)",
    ],
    "periodogram": ["s.periodogram(x)", "s.periodogram(x, x[0], 'hann', nfft=30)"],
    "coherence": ["s.coherence(x, np.cos(3 * x) + x[::-1], nperseg=8)"],
    "spectrogram": [
        "s.spectrogram(x, nperseg=8)",
        "s.spectrogram(x, nperseg=8, mode='complex')",
        "s.spectrogram(x, nperseg=8, mode='magnitude')",
        "s.spectrogram(x, x[0], nperseg=8, mode='phase')",
    ],
    "stft": [
        "s.stft(x, nperseg=8)",
        "s.stft(x.reshape(2, 12), nperseg=6, noverlap=2, boundary='even')",
        "s.stft(x, x[1], nperseg=8, return_onesided=False, boundary=None, detrend='constant')",
    ],
    "istft": [
        "s.istft((x[:15] + 1j * x[3:18]).reshape(5, 3), nperseg=8)",
        "s.istft((x[:15] + 1j * x[3:18]).reshape(5, 3), x[0], nperseg=8, scaling='psd')",
    ],
    "ShortTimeFFT": [
        "s.ShortTimeFFT(np.hanning(8), 3, 1.0).stft(x)",
        "s.ShortTimeFFT(np.hanning(8), 3, 1.0, scale_to='psd').spectrogram(x.reshape(2, 12))",
        "s.ShortTimeFFT(x[:8], 3, x[9], fft_mode='twosided').stft(x, padding='even')",
        "(lambda one: one.istft(one.stft(x), k1=24))(s.ShortTimeFFT(x[:8], 3, 1.0))",
        "s.ShortTimeFFT.from_window(('gaussian', x[0]), 1.0, 8, 4).spectrogram(x, x[::-1])",
    ],
    "CZT": ["s.CZT(24, 5)(x)"],
    "ZoomFFT": ["s.ZoomFFT(24, 0.4)(x)", "s.ZoomFFT(12, [0.1, 0.4 * x[0]], 7)(x[:12])"],
    "czt": [
        "s.czt(x, 7)",
        "s.czt(x, 5, np.exp(-0.3j), 1.1)",
        "s.czt(x, 5, np.exp(-0.3j * x[0]), x[1] + 0j)",
    ],
    "zoom_fft": ["s.zoom_fft(x, [0.2, 0.5], 7)", "s.zoom_fft(x, 0.4 * x[0], 5)"],
    "freqz": [
        "s.freqz(x[:3], x[3:6] + 2, 6)",
        "s.freqz(x[:3], x[4], 6)",
        "s.freqz(x[:3], 1, 6, whole=True, fs=x[8])",
        "s.freqz(x[:3], 1, 6, include_nyquist=True)",
        "s.freqz(x[:3], x[3:6], x[5:8], fs=x[9] + 1)",
    ],
    "freqz_zpk": [
        "s.freqz_zpk(x[:2], 0.3 * x[3:5], x[5], 6)",
        "s.freqz_zpk(x[:2], 0.3 * x[3:5], x[5], x[6:9])",
    ],
    "sosfreqz": ["s.sosfreqz(SOS, x[:4])"],
    "freqz_sos": ["s.freqz_sos(SOS * np.append(x[:3], np.ones(3)), 5)"],
    "freqs": ["s.freqs(x[:3], x[3:6] + 2, x[6:9])"],
    "freqs_zpk": ["s.freqs_zpk(x[:2], -x[3:6], x[7], x[8:11])"],
    "group_delay": [
        "s.group_delay((x[:3], x[3:6] + 2), 5)",
        "s.group_delay((x[:3], x[3:6] + 2), x[7:9])",
    ],
    "resample": [
        "s.resample(x, 10)",
        "s.resample(x, 31)",
        "s.resample(x, 10, window='hamming')",
        "s.resample(x.reshape(2, 12), 5, axis=1, t=np.arange(12.0))",
    ],
    "resample_poly": [
        "s.resample_poly(x, 3, 2)",
        "s.resample_poly(x.reshape(12, 2), 2, 3, padtype='line')",
        "s.resample_poly(x, 1, 2, window=x[:5])",
        "s.resample_poly(x, 3, 1, padtype='mean')",
    ],
    "decimate": [
        "s.decimate(x, 2, n=3, ftype='fir')",
        "s.decimate(np.concatenate((x, x, x)), 2, n=3)",
        "s.decimate(x, 3, n=2, zero_phase=False)",
    ],
    "upfirdn": [
        "s.upfirdn(x[:4], x)",
        "s.upfirdn(x[:4], x[5:], 3, 2)",
        *[
            f"s.upfirdn(x[:5], x.reshape(3, 8), 2, 3, axis=1, mode={mode!r})"
            for mode in ("wrap", "edge", "symmetric", "reflect", "smooth", "line")
        ],
        "s.upfirdn(x[:7], x[7:], 1, 2, mode='antisymmetric')",
        "s.upfirdn(x[:7], x[7:12], 1, 1, mode='antireflect')",
        "s.upfirdn(x[:3] + 1j * x[3:6], x[7:12] - 1j, 2)",
    ],
    "firwin": [
        "s.firwin(7, 0.3 * x[0])",
        "s.firwin(7, [0.1 * x[0], 0.5], pass_zero=False, window=('kaiser', 3.0 * x[1]))",
        "s.firwin(7, x[0], fs=4 * x[1] + 2, scale=False)",
    ],
    "firwin2": [
        "s.firwin2(9, [0.0, 0.3, 0.6, 1.0], x[:4])",
        "s.firwin2(9, np.concatenate((np.zeros(1), 0.3 * x[:1], np.ones(1))), [1.0, 1.0, 0.0])",
    ],
    "firls": [
        "s.firls(7, [0.0, 0.3, 0.5, 1.0], x[:4])",
        "s.firls(7, [0.0, 0.3, 0.5, 1.0], x[:4], weight=x[4:6])",
    ],
    "firwin_2d": ["s.firwin_2d((3, 5), ('hamming', 'hann'), fc=0.3 * x[0])"],
    "minimum_phase": ["s.minimum_phase(np.append(x[:3], np.append(3 + x[3], x[2::-1])))"],
    "lombscargle": [
        "s.lombscargle(np.sort(x), x, [0.5, 1.2])",
        "s.lombscargle(np.arange(24.0), x, x[:3])",
        "s.lombscargle(x, x ** 2, [0.5, 1.2], normalize=True)",
    ],
    "vectorstrength": ["s.vectorstrength(x, 1.7)", "s.vectorstrength(x, 1.0 + x[:3])"],
    "medfilt": ["s.medfilt(x, 5)", "s.medfilt(x.reshape(4, 6))"],
    "medfilt2d": ["s.medfilt2d(x.reshape(4, 6), 3)", "s.medfilt2d(x.reshape(4, 6), [1, 5])"],
    "order_filter": [
        "s.order_filter(x, np.ones(5), 1)",
        "s.order_filter(x.reshape(4, 6), np.array([[0, 1, 0], [1, 1, 1], [0, 1, 0]]), 3)",
    ],
    "wiener": ["s.wiener(x, 5)", "s.wiener(x.reshape(4, 6), 3, 0.1 * x[0])"],
    "deconvolve": ["s.deconvolve(x[:9], x[:3] + 1)"],
    "sosfilt": ["s.sosfilt(SOS[0], x)"],
    "zpk2tf": ["s.zpk2tf(x[:2], x[3:6], x[7])"],
    "sos2tf": ["s.sos2tf(SOS * x[:2, None])"],
    "tf2zpk": ["s.tf2zpk([1.0, 3.0, 2.0] * x[:3] ** 0.1, [1.0, 5.0, 6.0] * x[3:6] ** 0.1)"],
    "sos2zpk": ["s.sos2zpk(SOS * np.append(x[:3], np.ones(3)))"],
    "tf2sos": ["s.tf2sos([1.0, 3.0, 2.0] * x[:3] ** 0.1, [1.0, 5.0, 6.0] * x[3:6] ** 0.1)"],
    "zpk2sos": [
        "s.zpk2sos(-x[:2], 0.3 * x[3:5], x[6])",
        "s.zpk2sos([0.3j, -0.3j], [0.2 + 0.3j, 0.2 - 0.3j], x[6])",
    ],
    "lp2lp": ["s.lp2lp(x[:2], x[3:6], x[7])"],
    "lp2hp": ["s.lp2hp(x[:2], x[3:6], x[7])"],
    "lp2bp": ["s.lp2bp(x[:2], x[3:6], x[7], x[8])"],
    "lp2bs": ["s.lp2bs(x[:2], x[3:6], x[7], x[8])"],
    "lp2lp_zpk": ["s.lp2lp_zpk(x[:1], x[3:5], x[7], x[8])"],
    "lp2hp_zpk": ["s.lp2hp_zpk(x[:1], x[3:5], x[7], x[8])"],
    "lp2bp_zpk": ["s.lp2bp_zpk(x[:1], x[3:5], x[7], x[8] + 2, 0.1 * x[9])"],
    "lp2bs_zpk": ["s.lp2bs_zpk(x[:1], x[3:5], x[7], 0.1 * x[8], x[9])"],
    "bilinear_zpk": ["s.bilinear_zpk(x[:1], -x[3:5], x[7], x[8])"],
    "bilinear": ["s.bilinear(x[:2], x[3:6], x[7])"],
    "normalize": ["s.normalize(x[:2], x[3:6])"],
    "butter": [
        "s.butter(3, 0.3 * x[0])",
        "s.butter(2, 0.3 * x[0], output='zpk')",
        "s.butter(2, [0.1 * x[0], 0.7], 'band', output='sos')",
        "s.butter(2, [0.1 * x[0], 0.3 + 0.3 * x[1]], 'bandstop')",
        "s.butter(2, x[0], 'high', analog=True)",
        "s.butter(2, x[0], fs=x[1] + 5)",
    ],
    "cheby1": ["s.cheby1(3, x[1], 0.3 * x[0])"],
    "cheby2": ["s.cheby2(3, 20 * x[1], 0.3 * x[0])"],
    "ellip": ["s.ellip(3, 0.5, 20.0, 0.3 * x[0])"],
    "bessel": ["s.bessel(3, 0.3 * x[0])"],
    "iirfilter": ["s.iirfilter(2, 0.3 * x[0], btype='low')"],
    "iirnotch": ["s.iirnotch(0.3 * x[0], 10 * x[1])"],
    "iirpeak": ["s.iirpeak(0.3 * x[0], 10 * x[1])"],
    "iircomb": ["s.iircomb(0.25, 10 * x[1])"],
    "gammatone": ["s.gammatone(0.3 + 0.1 * x[0], 'fir')"],
    "cheb1ap": ["s.cheb1ap(3, x[0])", "s.cheb1ap(2, x[0])"],
    "cheb2ap": ["s.cheb2ap(3, 20 * x[0])"],
    "chirp": [
        "s.chirp(x, x[0], 1.2, 2 * x[1])",
        "s.chirp(x, 1.0, 1.2, 2.0 + x[0], 'log')",
        "s.chirp(0.2 * x, 2.0, 1.2 + x[2], 1.0, 'hyperbolic', phi=20 * x[3])",
        "s.chirp(0.2 * x, x[4], 1.2 + x[2], 3.0, 'quadratic')",
    ],
    "sawtooth": ["s.sawtooth(x)", "s.sawtooth(3 * x, 0.4 * x[0])"],
    "square": ["s.square(x, 0.5) * x"],
    "envelope": [
        "s.envelope(x)",
        "s.envelope(x, (1, 4), squared=True)",
        "s.envelope(x, (1, 5), residual=None, n_out=12)",
    ],
    "savgol_coeffs": ["s.savgol_coeffs(5, 2, deriv=1, delta=x[0])"],
    "savgol_filter": [
        "s.savgol_filter(x, 5, 2, 1, x[0])",
        "s.savgol_filter(x, 4, 2, 2, x[0], mode='wrap')",
    ],
    "cspline1d": ["s.cspline1d(x)", "s.cspline1d(x, x[0])"],
    "qspline1d": ["s.qspline1d(x)"],
    "cspline1d_eval": [
        "s.cspline1d_eval(x, 9.3 * x[:5])",
        "s.cspline1d_eval(x, 20 * x[:5] - 13, dx=0.8 + x[1], x0=x[0])",
    ],
    "qspline1d_eval": ["s.qspline1d_eval(x, 10 * x[:5])"],
    "cspline2d": ["s.cspline2d(np.tile(x.reshape(4, 6), (6, 4)))"],
    "qspline2d": ["s.qspline2d(np.tile(x.reshape(4, 6), (6, 4)))"],
    "spline_filter": ["s.spline_filter(np.tile(x.reshape(4, 6), (20, 14)))[1]"],
    "gauss_spline": ["s.gauss_spline(x, 3)"],
    "symiirorder1": [
        "s.symiirorder1(x, x[0], 0.3)",
        "s.symiirorder1(x.reshape(2, 12), 2.0, 0.1, 1e-8)",
    ],
    "symiirorder2": ["s.symiirorder2(np.tile(x, 4), 0.5, 0.3)"],
    "sepfir2d": ["s.sepfir2d(x.reshape(4, 6), x[:3], x[3:8])"],
    "residue": ["s.residue(x[:2], [1.0, 3.0, 2.0])"],
    "residuez": ["s.residuez(x[:2], [1.0, 3.0, 2.0])"],
    "lfilter_zi": ["s.lfilter_zi(x[:3], x[3:6] + 2)"],
    "sosfilt_zi": ["s.sosfilt_zi(SOS * np.append(x[:3], np.ones(3)))"],
    "lfiltic": ["s.lfiltic(x[:3], x[3:6] + 2, x[6:8], x[8:10])"],
    "find_peaks": [
        "totals(x[s.find_peaks(x)[0]])",
        "totals(s.find_peaks(x**1.3, height=0.1, prominence=0.1, width=0.1)[1])",
        "totals(s.find_peaks(x, threshold=0.01, distance=3, wlen=7, prominence=(None, 9.0)))",
        "totals(s.find_peaks(np.round(4 * x) * x[0], plateau_size=1)[1])",
    ],
    "peak_prominences": ["totals(s.peak_prominences(x, s.find_peaks(x)[0]))"],
    "peak_widths": [
        "totals(s.peak_widths(x**1.3, s.find_peaks(x)[0]))",
        "s.peak_widths(x, [0, 23, 4], 0.3)",
    ],
    "argrelmax": ["totals(x[s.argrelmax(x)[0]])"],
    "argrelmin": ["totals(x[s.argrelmin(x)[0]])"],
    "argrelextrema": ["totals(x[s.argrelextrema(x, np.greater, order=2)])"],
    "find_peaks_cwt": ["totals(x[s.find_peaks_cwt(x, [1, 2])])"],
    "lsim": [
        "s.lsim(([1.0], [1.0, x[0]]), x, np.arange(24.0))",
        "s.lsim((x[:1], -x[1:3], x[4]), x[:9], np.arange(9.0) / 9)",
        "s.lsim(s.lti(*system(x)), x[:9], 0.1 * np.arange(9.0) * x[9], x[10:12], interp=False)",
    ],
    "step": ["s.step(([1.0], [1.0, x[0]]), T=np.arange(4.0))", "s.step(([1.0], [1.0, x[0]]))"],
    "impulse": ["s.impulse(([1.0], [1.0, x[0], x[1]]), T=np.arange(4.0))"],
    "freqresp": ["s.freqresp(([1.0], [1.0, x[0]]), x[:5])", "s.freqresp(system(x), x[11:14])"],
    "bode": ["s.bode(([1.0], [1.0, x[0]]), x[:5])"],
    "dlsim": [
        "s.dlsim((0.3 * system(x)[0], *system(x)[1:], 1.0), x)",
        "s.dlsim((x[:2], np.append(1, 0.3 * x[2:4]), 1.0), x)",
        "s.dlsim((x[:2], np.append(1, 0.3 * x[2:4]), 0.5), x[:6], t=np.arange(6.0))",
    ],
    "dstep": ["s.dstep((x[:2], np.append(1, 0.3 * x[2:4]), 1.0), n=5)"],
    "dimpulse": ["s.dimpulse((x[:2], np.append(1, 0.3 * x[2:4]), 1.0), n=5)"],
    "dfreqresp": ["s.dfreqresp((x[:2], np.append(1, 0.3 * x[2:4]), 1.0), x[5:8])"],
    "dbode": ["s.dbode((x[:2], np.append(1, 0.3 * x[2:4]), 1.0), x[5:8])"],
    "lti": ["s.lti(x[:2], x[2:5]).to_zpk().gain", "s.lti(*system(x)).step(T=np.arange(4.0))"],
    "dlti": ["s.dlti(x[:2], x[2:5], dt=0.1).to_ss().C"],
    "StateSpace": [
        "(s.StateSpace(*system(x)) * x[9]).C",
        "(s.StateSpace(*system(x)) + s.StateSpace(-1.0, x[1], x[2], x[3])).A",
        "s.StateSpace(*system(x)).to_tf().num",
    ],
    "TransferFunction": [
        "s.TransferFunction(x[:2], x[2:5]).to_ss().A",
        "s.TransferFunction(x[:3], x[3:6]).to_discrete(0.1 * x[7]).num",
    ],
    "ZerosPolesGain": ["s.ZerosPolesGain(x[:1], -x[2:4], x[5]).step(T=np.arange(3.0))"],
    "ss2tf": ["s.ss2tf(*system(x))", "s.ss2tf(np.eye(2), x[:2, None], x[None, 2:4], [[0.0]])"],
    "ss2zpk": ["s.ss2zpk(*system(x))"],
    "check_COLA": ["x if s.check_COLA(np.ones(8) + 1e-12 * x[:8], 8, 4, 1e-9) else 2 * x"],
    "check_NOLA": ["x if s.check_NOLA(x[:8] * (x[0] > 1.0), 8, 4) else 2 * x"],
    "buttord": [
        "s.buttord(0.1 * x[0], 0.1 * x[0] + 0.3, 3.0, 40.0)",
        "s.buttord(0.1 * x[0] + 0.3, 0.1 * x[0], 3.0, 40.0, fs=2 * x[3] + 2)",
        "s.buttord([0.1 * x[0] + 0.1, 0.5], [0.05, 0.6], 3.0, 40.0)",
    ],
    "cheb1ord": ["s.cheb1ord(0.1 * x[0], 0.1 * x[0] + 0.3, 3.0, 40.0)"],
    "cheb2ord": ["s.cheb2ord(0.1 * x[0], 0.1 * x[0] + 0.3, 3.0, 40.0)"],
    "ellipord": ["s.ellipord(0.1 * x[0], 0.1 * x[0] + 0.3, 3.0, 40.0)"],
    "iirdesign": ["s.iirdesign(0.1 * x[0], 0.1 * x[0] + 0.3, 3.0, 40.0, ftype='butter')"],
    "kaiserord": ["s.kaiserord(40 + 9 * x[0], 0.3 * x[1])"],
    "tf2ss": ["s.tf2ss(x[:2], x[2:5])"],
    "zpk2ss": ["s.zpk2ss(x[:2], x[2:5], x[6])"],
    "abcd_normalize": [
        "s.abcd_normalize(x[:4].reshape(2, 2), x[4:6, None], x[None, 6:8], x[8:9, None])"
    ],
    "cont2discrete": [
        "s.cont2discrete((x[:4].reshape(2, 2), x[4:6, None], x[None, 6:8], "
        f"{d}), 0.1 * x[9], {method!r})"
        for d, method in (
            *[("x[8:9, None]", one) for one in ("zoh", "bilinear", "foh")],
            ("np.zeros((1, 1))", "impulse"),
        )
    ],
    "windows.kaiser": ["s.windows.kaiser(7, 4 * x[0])"],
    "windows.tukey": ["s.windows.tukey(12, 0.45 * x[0])"],
    "windows.general_cosine": ["s.windows.general_cosine(7, x[:3])"],
    "windows.general_hamming": ["s.windows.general_hamming(7, x[0])"],
    "windows.chebwin": [
        "s.windows.chebwin(7, 50 + 9 * x[0])",
        "s.windows.chebwin(8, 50 + 9 * x[0])",
    ],
    "windows.taylor": ["s.windows.taylor(7, 4, 30 * x[0])"],
    "windows.kaiser_bessel_derived": ["s.windows.kaiser_bessel_derived(8, 4 * x[0])"],
    "windows.get_window": [
        "s.windows.get_window(('kaiser', 4 * x[0]), 7)",
        "s.windows.get_window(4 * x[0], 7, False)",
        "s.get_window(('general_hamming', x[0]), 7)",
        "s.get_window(('tukey', 0.4 * x[0]), 8)",
        "s.windows.get_window(('kaiser', 3 * x[0]), 6)",
    ],
}
#: SciPy takes one of their numbers for a number of Python's; one that is recorded is of float64.
WIDER = (
    "lp2hp(",
    "lp2lp_zpk",
    "lp2hp_zpk",
    "lp2bp_zpk",
    "hyperbolic",
    "bilinear_zpk",
    "x[9] + 1",
    "fs=2 *",
)
#: Those whose answers come out otherwise where elements are in another order.
CHOOSING = "medfilt medfilt2d order_filter find_peaks peak_prominences peak_widths argrelmax"
CHOOSING = (*CHOOSING.split(), "argrelmin", "argrelextrema", "check_NOLA")
CASES = [(name, text) for name, every in TEXTS.items() for text in every]
parametrized = pytest.mark.parametrize(("name", "text"), CASES, ids=[text for _, text in CASES])
pytestmark = pytest.mark.filterwarnings(
    "ignore:some peaks have a (prominence|width) of 0", "ignore:kernel_size exceeds"
)


def listed(result):
    """All arrays and numbers of a result."""
    if isinstance(result, dict):
        result = [*result.values()]
    if isinstance(result, (tuple, list)):
        return [part for one in result for part in listed(one)]
    return [] if result is None else [result]


def system(x):
    """Matrices of a linear system."""
    return -x[:4].reshape(2, 2), x[4:6, None], x[None, 6:8], x[8:9, None]


def parts(result):
    """All numbers of a result along one axis, real and imaginary parts one after the other."""
    found = []
    for one in listed(result):
        both = (one.real, one.imag) if np.iscomplexobj(one) else (one,)
        found += [np.reshape(part, -1) for part in both]
    return np.concatenate(found)


def totals(result):
    """A number of each array, however many elements it has."""
    return [np.sum(one * np.cos(np.arange(np.size(one)))) for one in listed(result)]


NAMES = {"SOS": SOS, "parts": parts, "totals": totals, "system": system, "np": np}


def expression(name, text):
    more = {"s": signal, **NAMES}
    others = {"choices": True, "other": (1.1,)} if name in CHOOSING else {"choices": False}
    return Expression(f"parts({text})", shape=(24,), names=more, **{"other": (0.95, 1.1), **others})


def is_there(name):
    if f"signal.{name}" in _LATER:
        return False
    place = scipy.signal.windows if name.startswith("windows.") else scipy.signal
    return hasattr(place, name.rpartition(".")[2])


def skip_what_is_not(name):
    if not is_there(name):
        pytest.skip("not in this version of SciPy")


def point():
    return np.random.default_rng(5).permutation(0.3 + 1.6 * (np.arange(24) + 0.5) / 24)


def total(text, module):
    """A function of one number: all results, each with another weight."""
    code = compile(f"parts({text})", "an expression", "eval")

    def function(x):
        names = {"s": module, **NAMES, "x": x}
        made = eval(code, names)
        return np.sum(np.sin(made) * np.cos(np.arange(np.size(made))))

    return function


@parametrized
def test_derivatives(name, text):
    skip_what_is_not(name)
    CHECKS["derivatives"](expression(name, text))


@parametrized
def test_programs(name, text):
    """Programs at other inputs, of which some choose otherwise."""
    skip_what_is_not(name)
    f, one = total(text, signal), expression(name, text)
    c = tg.compile(f, verify="never", native=False)
    c.grad(one.point())
    for x in (one.point(), *one.points()):
        for found, wanted in zip(c.value_and_grad(x), tg.value_and_grad(f)(x), strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-8, atol=1e-9)
    c.wait()


@pytest.mark.parametrize("name", some(TEXTS, 0, len(TEXTS) // 2))
def test_batches(name):
    skip_what_is_not(name)
    f, x = tg.grad(total(TEXTS[name][0], signal)), point()
    batch = np.stack([x * factor for factor in np.linspace(0.95, 1.05, 10)])
    close(tg.vmap(f)(batch), np.stack([f(one) for one in batch]))


@pytest.mark.parametrize("name", TEXTS)
def test_values_and_dtypes(name):
    """What SciPy gives, of float32 too, and recorded without a transform."""
    skip_what_is_not(name)
    for text in TEXTS[name]:
        if "totals" in text:
            continue
        code = compile(text, "an expression", "eval")
        for dtype, loose in ((np.float64, 1e-9), (np.float32, 2e-3)):
            x = point().astype(dtype)
            names = {**NAMES, "SOS": SOS.astype(dtype)}
            wanted = listed(eval(code, {"s": scipy.signal, **names, "x": x}))
            recorded = tg.tensor(x, requires_grad=True)
            found = listed(eval(code, {"s": signal, **names, "x": recorded}))
            assert len(found) == len(wanted)
            for one, theirs in zip(found, wanted, strict=True):
                one = one.detach().numpy() if hasattr(one, "detach") else one
                np.testing.assert_allclose(one, theirs, rtol=loose, atol=loose)
                assert np.shape(one) == np.shape(theirs)
                wanted_dtype = np.asarray(theirs).dtype
                if dtype == np.float64 or not any(part in text for part in WIDER):
                    assert np.asarray(one).dtype == wanted_dtype, (text, dtype)


@pytest.mark.parametrize("name", TEXTS)
def test_plain_code_is_entered(name):
    """The same with SciPy's own names in the function."""
    skip_what_is_not(name)
    text = re.sub(r"\bs\.", "scipy.signal.", TEXTS[name][-1])
    space = {"scipy": scipy, **NAMES}
    exec(
        f"def f(x):\n    made = parts({text})\n"
        "    return np.sum(np.sin(made) * np.cos(np.arange(np.size(made))))\n",
        space,
    )
    x, f = point(), space["f"]
    value, gradient = tg.value_and_grad(f)(x)
    wanted = tg.value_and_grad(total(TEXTS[name][-1], signal))(x)
    np.testing.assert_allclose(value, f(x), rtol=1e-9)
    np.testing.assert_allclose(value, wanted[0], rtol=1e-12)
    np.testing.assert_allclose(gradient, wanted[1], rtol=1e-9, atol=1e-12)


def test_systems_are_scipys():
    """Of its classes, for their forms and time; converted, copied and wrong ones, too."""
    plain = ([1.0], [1.0, 2.0])
    for name, args, kwargs in (
        *[("lti", plain, {}), ("dlti", plain, {"dt": 0.1}), ("TransferFunction", plain, {})],
        *[("StateSpace", (1, 2, 3, 4), {"dt": 1}), ("ZerosPolesGain", ([1], [2], 3), {})],
    ):
        one, theirs = (getattr(s, name)(*args, **kwargs) for s in (signal, scipy.signal))
        assert isinstance(one, type(theirs))
        assert repr(one) == repr(theirs) == repr(copy.deepcopy(one))
        assert repr(signal.StateSpace(one)) == repr(scipy.signal.StateSpace(theirs))
    for s in (signal, scipy.signal):
        with pytest.raises(ValueError, match="2, 3 or 4 arguments"):
            s.lti([1.0])


def test_hankel_transforms():
    """`fht` and `ifht` of `scipy.fft`, which are linear."""
    f = lambda x: np.sum(np.sin(fft.fht(x, 0.1, 0.5, 0.2, 0.3)) + fft.ifht(x**2, 0.1, 0.5))
    x, v = point(), np.cos(np.arange(24.0))
    gradient = tg.grad(f)(x)
    close(np.sum(gradient * v), difference(f, x, v), loose=10.0)
    close(tg.hvp(f)(x, v), difference(tg.grad(f), x, v), loose=100.0)
    c = tg.compile(f)
    for one in (x, x, 0.5 * x):
        close(c.grad(one), tg.grad(f)(one))
    with pytest.raises(
        TypeError, match="scipy.fft.fht: one of dln, mu, offset and bias is recorded"
    ):
        tg.grad(lambda t: np.sum(fft.fht(x, t, 0.5)))(0.1)


#: Where SciPy's code selects another formula, or leaves out a coefficient: functions and operands.
SPECIAL = {
    "lfilter_zi of a filter with first coefficient 1": (
        lambda s, b, a: s.lfilter_zi(b, a),
        *([0.3, 0.2, 0.5], [1.0, 0.4, 0.2]),
    ),
    "lfiltic of the same": (
        lambda s, b, a, y: s.lfiltic(b, a, y, [0.4]),
        *([0.3, 0.2], [1.0, 0.4, 0.2], [0.7, 0.2]),
    ),
    "lp2hp of frequency 1": (lambda s, b, a, w: s.lp2hp(b, a, w), [0.3, 0.2], [2.0, 1.0, 0.4], 1.0),
    "bilinear with a coefficient 0": (
        lambda s, b, a, fs: s.bilinear(b, a, fs),
        *([0.0, 0.3, 1.0], [1.0, 0.7, 2.0], 0.8),
    ),
    "residue with a coefficient 0": (lambda s, b: s.residue(b, [1.0, 3.0, 2.0]), [0.0, 0.7]),
    "residue without remainder": (lambda s, b: s.residue(b, [1.0, 3.0, 2.0]), [1.0, 3.0, 2.0]),
    "residuez with a coefficient 0": (lambda s, b: s.residuez(b, [1.0, 3.0, 2.0]), [0.7, 0.0]),
    **{
        f"{method} chirp of equal frequencies": (
            lambda s, t, f0, f1, method=method: s.chirp(t, f0, 1.3, f1, method),
            *([0.2, 0.9], 1.5, 1.5),
        )
        for method in ("logarithmic", "hyperbolic")
    },
    "convolution windows of beta 0": (lambda s, b: s.windows.kaiser(7, b), 0.0),
    "medfilt of ties": (lambda s, x: s.medfilt(x, 3) * 1.0, [0.3, 0.9, 0.1, 0.7, 0.2]),
}


@pytest.mark.parametrize("name", SPECIAL)
def test_special_points(name):
    f, *operands = SPECIAL[name]
    operands = [np.array(x)[()] for x in operands]
    places = tuple(range(len(operands)))

    def loss(module):
        return lambda *xs: np.sum(np.sin(parts(f(module, *xs))))

    def along(function, k):
        return lambda x: function(*[x if j == k else y for j, y in enumerate(operands)])

    gradients = tg.grad(loss(signal), places)(*operands)
    for k, (found, x) in enumerate(zip(gradients, operands, strict=True)):
        v = np.cos(1.0 + np.arange(x.size)).reshape(x.shape)[()]
        close(np.sum(found * v), difference(along(loss(scipy.signal), k), x, v), loose=100.0)
        gradient = along(tg.grad(loss(signal), k), k)
        close(tg.jvp(gradient, (x,), (v,))[1], difference(gradient, x, v), loose=1e4)
    compiled = tg.compile(loss(signal), argnums=places, verify="never", native=False)
    for shift in (0.0, 0.0, 0.05, 0.05, 0.0):  # the point, another, and the point again
        point = [x + shift * np.sin(1.0 + np.arange(x.size)).reshape(x.shape) for x in operands]
        wanted = tg.grad(loss(signal), places)(*point)
        for one, theirs in zip(compiled.grad(*point), wanted, strict=True):
            close(one, theirs)


def test_missing_values():
    x = np.array([1.0, 5.0, np.nan, 2.0, 4.0, 3.0, np.nan, np.nan, 1.0, 0.0, 2.0, 6.0])
    for call in (
        lambda s, x: s.medfilt(x, 5),
        lambda s, x: s.medfilt2d(x.reshape(3, 4), 3),
        lambda s, x: s.order_filter(x, np.ones(3), 0),
    ):
        found = call(signal, tg.tensor(x, requires_grad=True)).detach().numpy()
        np.testing.assert_array_equal(found, call(scipy.signal, x))


REFUSED = {
    "poles of a symmetric filter": lambda x: signal.symiirorder1(x, 1.0, 0.1 * x[0]),
    "cspline1d: lamb is recorded and 0": lambda x: signal.cspline1d(x, 0.0 * x[0]),
    "residue: the denominator": lambda x: signal.residue([1.0, 2.0], x[:3])[0],
    "system of 9 states": lambda x: signal.ss2tf(
        np.diag(x[:9]), np.ones((9, 1)), np.ones((1, 9)), np.zeros((1, 1))
    )[1],
    "medfilt: the operand is complex": lambda x: signal.medfilt(x + 1j),
    r"optimize.fminbound\(\) takes|buttord has no derivative": lambda x: signal.buttord(
        [0.1 * x[0], 0.6], [0.2, 0.5], 3.0, 40.0
    )[1],
}


@pytest.mark.parametrize("words", REFUSED)
def test_what_is_refused_is_named(words):
    f = lambda x: np.sum(REFUSED[words](x).real)
    for call in (tg.grad(f), tg.compile(f).grad):
        with pytest.raises(TypeError, match=words):
            call(point())


def test_plain_arguments_give_what_scipy_gives():
    x = point()
    assert type(signal.welch(x, nperseg=8)[1]) is np.ndarray
    one = signal.ShortTimeFFT(np.hanning(8), 3, 1.0)
    theirs = scipy.signal.ShortTimeFFT(np.hanning(8), 3, 1.0)
    assert isinstance(one, scipy.signal.ShortTimeFFT)
    np.testing.assert_array_equal(one.stft(x), theirs.stft(x))
    np.testing.assert_array_equal(one.f, theirs.f)
    assert one.p_range(24) == theirs.p_range(24)
    np.testing.assert_array_equal(signal.CZT(24, 5)(x), scipy.signal.CZT(24, 5)(x))
    np.testing.assert_array_equal(
        *[one.ZoomFFT(24, 0.4).points() for one in (signal, scipy.signal)]
    )
