"""The exact accountant, with proven bounds (:ref:`app-exact`)."""
