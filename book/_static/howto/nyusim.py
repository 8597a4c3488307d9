"""Write the path losses of NYUSIM as rounds of ten devices."""

import numpy as np

loss = np.loadtxt("OmniPDPInfo.txt", skiprows=1)[:, 2]  # a path loss per drop
np.save("drops.npy", loss.reshape(-1, 10))  # ten drops in turn are a round
