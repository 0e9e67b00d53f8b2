"""The network that is shipped, behind HTTP: rows of pixels in, digits out."""

from digits_models import load, train_mlp
from fastapi import FastAPI

app = FastAPI()
model = train_mlp(load())


@app.get("/ready")
def ready() -> bool:
    """Answer when the model has been trained."""
    return True


@app.post("/predict")
def predict(rows: list[list[float]]) -> list[int]:
    """Return the digit of each row."""
    return model.predict(rows).tolist()
