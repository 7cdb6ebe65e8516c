"""The activity stream of a shop: page views, searches, clicks, carts and orders."""
