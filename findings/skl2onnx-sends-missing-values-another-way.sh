#!/usr/bin/env bash
# The ONNX form of a random forest that was fitted with missing values answers rows with NaN otherwise.
#
# Versions: scikit-learn 1.9.1, skl2onnx 1.20.0, onnx 1.23.2, onnxruntime 1.32.0, protobuf 7.36.2; Python 3.11.
# The usual guess: since RandomForestClassifier takes NaN (scikit-learn 1.4), a conversion that succeeds does so, too.
# What happens: it converts without a warning, and only rows with NaN are answered otherwise.
# Source: https://scikit-learn.org/stable/modules/tree.html#missing-values-support
# Seen on 2026-11-29: "warnings 0, 91 of 1000 labels differ, 0 without NaN"
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
from sklearn.ensemble import RandomForestClassifier

source = np.random.default_rng(0)
X = source.normal(size=(1000, 6)).astype(np.float32)
y = (X[:, 0] + X[:, 1] > 0).astype(int)
X[source.random(X.shape) < 0.1] = np.nan
missing = np.isnan(X).any(axis=1)
model = RandomForestClassifier(n_estimators=20, random_state=0).fit(X, y)
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    form = skl2onnx.to_onnx(model, X[:1], options={"zipmap": False})
about = [one for one in caught if "missing" in str(one.message).lower() or "nan" in str(one.message).lower()]
session = onnxruntime.InferenceSession(form.SerializeToString(), providers=["CPUExecutionProvider"])
labels, _ = session.run(None, {session.get_inputs()[0].name: X})
others = labels != model.predict(X)
print(f"warnings {len(about)}, {int(others.sum())} of 1000 labels differ, {int(others[~missing].sum())} without NaN")
assert not about
assert others[missing].sum() > 10
assert others[~missing].sum() == 0
PY
