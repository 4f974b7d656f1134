import pytest, mercer as mc
from sklearn.utils.estimator_checks import parametrize_with_checks
@parametrize_with_checks([mc.KernelMachineRegressor(), mc.KernelMachineRegressor(loss="huber"), mc.KernelMachineRegressor(loss="absolute",alpha=.1),
 mc.KernelMachineRegressor(loss="epsilon_insensitive", alpha=.1), mc.KernelQuantileRegressor(alpha=.1), mc.KernelHuberRegressor(),
 mc.KernelMachineClassifier(), mc.KernelMachineClassifier(loss="hinge"), mc.KernelMachineClassifier(loss="squared_hinge"),mc.KernelMachineClassifier(loss="exponential"), mc.KernelLogisticRegression(), mc.KernelMachineRegressor(penalty=mc.penalties.Norm(), alpha=.1)])
def test_checks(estimator, check):
    check(estimator)
