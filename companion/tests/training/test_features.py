"""The fixed features see each image by itself, whatever its brightness and contrast."""

import torch
from torch.testing import assert_close

from companion.training.features import features, linear

IMAGES = torch.rand(5, 32, 32, 3, generator=torch.Generator().manual_seed(0)).double()


def test_features_ignore_brightness_and_contrast():
    assert_close(features(0.2 + 0.5 * IMAGES), features(IMAGES))


def test_features_of_an_image_do_not_depend_on_others():
    alone = torch.cat([features(image) for image in IMAGES.split(1)])
    assert_close(features(IMAGES), alone)


def test_features_have_one_norm_and_fit_the_classifier():
    seen = features(IMAGES.float())
    assert_close(seen.norm(dim=1), torch.full((5,), 10.0))
    assert linear()(seen).shape == (5, 10)


def test_features_distinguish_directions():
    stripes = torch.zeros(2, 32, 32, 3)
    stripes[0, ::4] = stripes[1, :, ::4] = 1
    across, along = features(stripes)
    assert (across - along).norm() > 3  # of a norm of 10
