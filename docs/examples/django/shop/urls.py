from django.db import transaction
from django.http import HttpRequest, JsonResponse
from django.urls import path

from shop.models import Order
from shop.tasks import confirm_order


@transaction.atomic
def place_order(request: HttpRequest) -> JsonResponse:
    """`on_commit`: the job starts only when its order is there to be seen, and never for one that was rolled back."""
    order = Order.objects.create(email=request.POST["email"])
    transaction.on_commit(lambda: confirm_order.enqueue(order.pk))
    if request.POST.get("fail"):
        raise ValueError("the order is rolled back, and its job with it")
    return JsonResponse({"order": order.pk}, status=202)


urlpatterns = [path("orders", place_order)]
