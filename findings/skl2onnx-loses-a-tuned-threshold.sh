#!/usr/bin/env bash
# The ONNX form of a classifier with a tuned threshold decides at 0.5.
#
# Versions: scikit-learn 1.9.1, skl2onnx 1.20.0, onnx 1.23.2, onnxruntime 1.32.0, protobuf 7.36.2; Python 3.11.
# The usual guess: `to_onnx` of a fitted TunedThresholdClassifierCV answers as its `predict`, or raises an error.
# What happens: it converts without a warning, its probabilities agree, and its labels are those of the threshold 0.5.
# Source: https://scikit-learn.org/stable/modules/classification_threshold.html (the threshold is part of `predict`).
# Seen on 2026-11-29: "warnings 0, accuracy of predict 0.629, of the ONNX form 0.988, largest difference of p 1.8e-07"
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install -q --disable-pip-version-check \
    scikit-learn==1.9.1 skl2onnx==1.20.0 onnx==1.23.2 onnxruntime==1.32.0 protobuf==7.36.2
"$folder/env/bin/python" - <<'PY'
import warnings

import numpy as np
import onnxruntime
import skl2onnx
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import TunedThresholdClassifierCV
from sklearn.preprocessing import StandardScaler

X, y = load_breast_cancer(return_X_y=True)
X = StandardScaler().fit_transform(X).astype(np.float32)
model = TunedThresholdClassifierCV(LogisticRegression(), scoring="recall").fit(X, y)
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    form = skl2onnx.to_onnx(model, X[:1], options={"zipmap": False})
session = onnxruntime.InferenceSession(form.SerializeToString(), providers=["CPUExecutionProvider"])
labels, probabilities = session.run(None, {session.get_inputs()[0].name: X})
own, converted = model.score(X, y), float((labels == y).mean())
difference = float(np.abs(probabilities - model.predict_proba(X)).max())
about = [one for one in caught if "hreshold" in str(one.message)]
print(
    f"warnings {len(about)}, accuracy of predict {own:.3f}, of the ONNX form {converted:.3f}, "
    f"largest difference of p {difference:.1e}"
)
assert not about
assert own < 0.7
assert converted > 0.95
assert difference < 1e-5
PY
