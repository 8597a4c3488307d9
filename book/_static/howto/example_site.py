"""Write an example of a measured trace: received power in dBm, in steps of 1 dB, with gaps below -110 dBm."""

import csv

import numpy as np

from adascale import channel

received = 23 + 10 * np.log10(
    channel.draw(num_devices=10, num_rounds=1000, seed=0).gain
)
with open("site.csv", "w", newline="") as file:
    rows = csv.writer(file)
    rows.writerow(["round", *(f"sensor {m}" for m in range(1, 11))])
    for t, values in enumerate(received.T):
        rows.writerow([t, *(f"{p:.0f}" if p >= -110 else "" for p in values)])
