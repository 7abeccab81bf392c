"""A Django project with one model, one view and one job."""
