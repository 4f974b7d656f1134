"""What every scikit-learn estimator here shares."""
