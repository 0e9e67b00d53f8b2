#!/usr/bin/env bash
# The ONNX form of a random forest of XGBoost gives the labels of another model.
#
# Versions: xgboost-cpu 3.2.0, onnxmltools 1.16.0, skl2onnx 1.20.0, onnx 1.23.2, onnxruntime 1.32.0, protobuf 7.36.2,
# scikit-learn 1.9.1; Python 3.11.
# The usual guess: `convert_xgboost` of a fitted XGBRFClassifier answers as its `predict`, as that of XGBClassifier does.
# What happens: it converts without a warning, and most labels are others; the same data with XGBClassifier agree.
# Source: https://xgboost.readthedocs.io/en/stable/tutorials/rf.html (all trees of a forest belong to one round).
# Seen on 2026-11-29: "warnings 0, labels that differ: XGBClassifier 0 of 800, XGBRFClassifier 521 of 800"
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install -q --disable-pip-version-check \
    xgboost-cpu==3.2.0 onnxmltools==1.16.0 skl2onnx==1.20.0 onnx==1.23.2 onnxruntime==1.32.0 protobuf==7.36.2 \
    scikit-learn==1.9.1
"$folder/env/bin/python" - <<'PY'
import warnings

import numpy as np
import onnxruntime
from onnxmltools import convert_xgboost
from onnxmltools.convert.common.data_types import FloatTensorType
from sklearn.datasets import make_classification
from xgboost import XGBClassifier, XGBRFClassifier

X, y = make_classification(800, 10, n_informative=6, n_classes=3, random_state=1)
X = X.astype(np.float32)


def differing(model):
    model.fit(X, y)
    form = convert_xgboost(model, initial_types=[("X", FloatTensorType([None, 10]))], target_opset=15)
    session = onnxruntime.InferenceSession(form.SerializeToString(), providers=["CPUExecutionProvider"])
    labels = session.run(None, {"X": X})[0]
    return int((labels != model.predict(X)).sum())


with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    boosted = differing(XGBClassifier(n_estimators=20, n_jobs=1))
    forest = differing(XGBRFClassifier(n_estimators=20, n_jobs=1))
print(
    f"warnings {len(caught)}, labels that differ: XGBClassifier {boosted} of {len(X)}, "
    f"XGBRFClassifier {forest} of {len(X)}"
)
assert not caught
assert boosted == 0
assert forest > len(X) / 2
PY
