"""As small as Django's settings can be."""

import os

SECRET_KEY = os.environ.get("DJANGO_SECRET_KEY", "only for the example")
INSTALLED_APPS = ["shop"]
ROOT_URLCONF = "shop.urls"
ALLOWED_HOSTS = ["*"]
DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": os.environ.get("SHOP_DB", "shop.db")}}
USE_TZ = True
