"""Topics of texts in two layers, with their words. Pass a text file with one document per line."""

import sys
from pathlib import Path

from sklearn.feature_extraction.text import TfidfVectorizer

from deepnmf import sdnmf_l
from deepnmf.hierarchy import explain, summaries

TEXTS = """
oil prices rise as opec cuts crude output
crude oil output falls and opec meets on prices
refiners pay more for crude oil as prices rise
central bank raises interest rates
bank lifts interest rates to slow inflation
interest rates rise and the central bank sees inflation
wheat harvest falls after drought
drought hits the corn and wheat harvest
wheat and corn exports fall after the drought
"""

text = Path(sys.argv[1]).read_text() if len(sys.argv) > 1 else TEXTS
vectorizer = TfidfVectorizer(stop_words="english", max_features=20000)
X = vectorizer.fit_transform(text.strip().splitlines())
words = vectorizer.get_feature_names_out()

narrow, broad = (5, 3) if text is TEXTS else (60, 20)
model = sdnmf_l((narrow, broad), random_state=0).fit(X)
for topic in range(broad):
    print(explain(model, unit=topic, feature_names=words, top=2, features=5))
for layer in summaries(model, X):
    print(f"layer {layer.layer}: {layer.zeros:.0%} zeros, {len(layer.dead)} dead units")
