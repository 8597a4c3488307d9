"""Trainings: accuracy, weights over rounds, imperfect channel estimates."""
